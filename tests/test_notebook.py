"""The notebook: its cells run one after the other, and its outputs are not kept."""

import contextlib
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "first_minutes.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def test_no_outputs_are_kept():
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
def test_the_cells_run_in_order(monkeypatch):
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setattr(plt, "show", lambda: None)
    names: dict = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for number, cell in enumerate(CELLS):
            if cell["cell_type"] == "code":
                source = "".join(cell["source"])
                exec(compile(source, f"cell {number}", "exec", dont_inherit=True), names)
    (axes,) = plt.gcf().axes
    assert [line.get_label() for line in axes.lines] == ["RoPE", "BiPE-RoPE"]
    plt.close("all")
    printed = out.getvalue()
    assert "intra  12 13 14 15 16 0 1 2 3 4 5 6" in printed
    losses = [float(loss) for loss in re.findall(r"loss (\S+) nats", printed)]
    assert len(losses) == 2 and max(losses) < 2.9  # 5.5 without training, 3.3 by frequencies alone
    assert all(curve[0] < 2.9 for curve in names["curves"].values())
    assert "The data is " in printed and len(names["written"].tokens) == 120


def test_outside_of_a_checkout_the_text_is_python_s_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    (cell,) = [source for source in code if "corpus =" in source]
    names: dict = {}
    exec(compile(cell.partition("tokens =")[0], "cell", "exec", dont_inherit=True), names)
    assert len(names["corpus"]) > 100_000 and "statement" in names["corpus"]
