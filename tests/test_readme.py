"""What the README shows, runs; what it says is there, is there."""

import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import torch
import yaml

from bipe import Decoder, DecoderConfig, Positions

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(code: str) -> dict:
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    return names


def test_the_twenty_lines_run(capsys):
    names = run(BLOCKS[0])
    assert capsys.readouterr().out.split() == ["tensor(2)", "tensor(14)"]
    assert names["cuts"].tolist() == [0, 17, 38, 53]
    assert names["logits"].shape == (1, 53, 256)


def test_the_encoding_of_the_readme_trains_flat_and_bilevel(monkeypatch):
    module = types.ModuleType("yours")
    module.Kerple = run(BLOCKS[1])["Kerple"]
    monkeypatch.setitem(sys.modules, "yours", module)
    kerple = {"_target_": "yours.Kerple", "n_head": 4}
    intra = {"_target_": "bipe.encodings.Learned", "width": 16, "length": 8}
    bilevel = {"_target_": "bipe.encodings.Bilevel", "intra": intra, "inter": kerple}
    sizes = {"vocab_size": 11, "width": 16, "n_layer": 1, "n_head": 4, "mlp_width": 16}
    at = Positions.from_marks(torch.tensor([[3, 0, 2, 0, 3, 0, 2]], dtype=torch.uint8))
    outs = []
    for encoding in (kerple, bilevel):
        config = DecoderConfig(**sizes, encoding=encoding)
        model = Decoder(config, allowed=("bipe.", "yours."))
        model.init_weights(seed=0)
        out = model.logits(torch.arange(7)[None], at)
        out.square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
        outs.append(out)
    assert not torch.allclose(*outs)


def targets(text: str) -> list[str]:
    """The targets of the calls of make in a text, in order."""
    return re.findall(r"^make (\w+)", text, re.MULTILINE)


def test_the_commands_of_the_readme_run_one_after_the_other_before_each_change():
    """Each could spoil the other: tests that read the folder they start in, data made anew."""
    block = re.search(r"## Try it\n\n```bash\n(.*?)```", README, re.DOTALL)
    assert targets(block[1]) == ["demo", "test"]
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert targets(run) == ["check", "demo", "test", "demo"]
    first, second = re.findall(r"^make demo .*", run, re.MULTILINE)
    assert first == second  # so that the second has to resume what the first made


def test_the_demo_trains_the_models_of_its_report():
    listed = yaml.safe_load((ROOT / "conf/experiment/demo.yaml").read_text(encoding="utf-8"))
    made = subprocess.run(
        ["make", "-n", "-s", "demo", "-C", ROOT, "-o", ".venv/demo.done"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    trained = re.search(r"printf '%s\\n' ([\w ]+) \|", made)[1].split()
    assert listed["report"]["runs"] == [f"${{out}}/{name}" for name in trained]
    commands = re.findall(r"\.venv/bin/bipe (\w+) experiment=demo", made)
    assert commands == ["prepare", "pretrain", "evaluate", "report", "report"]


def test_every_place_that_the_readme_links_to_exists():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    for link in links:
        assert (ROOT / link.partition("#")[0]).exists(), link


def test_the_picture_is_what_the_code_and_the_numbers_say():
    drawn = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "picture.py")))
    committed = (ROOT / "docs" / "picture.svg").read_text(encoding="utf-8")
    words = re.compile(r"<text[^>]*>([^<]*)</text>")
    made = drawn.picture()
    assert words.findall(made) == words.findall(committed)
    points = re.compile(r"<path d=\"(M[^\"]*)\"")
    assert points.findall(made) == points.findall(committed)
    drawing = committed.partition("</style>")[2]
    assert set(re.findall(r"(?:fill|stroke): (#\w+)", drawing)) == drawn.DARK.keys()
    assert drawn.dark_rules() in committed


def test_the_recording_is_what_the_commands_print():
    recorded = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "recording.py")))
    committed = (ROOT / "docs" / "recording.svg").read_text(encoding="utf-8")
    assert recorded.recording() == committed
    assert len(committed) < 60_000 and "prefers-reduced-motion" in committed
    assert "It rained all night! </text>" in committed and "83.4</text>" in committed


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
