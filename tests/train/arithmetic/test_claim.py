"""What `make arithmetic` claims is computed from the runs, and told when it does not hold."""

import json

import pytest

from benchmarks.arithmetic import main


def run(folder, name, seed, shares):
    held = {
        "model": {"name": name},
        "training": {"seed": seed},
        "environment": {"torch": "2.13.0"},
        "arithmetic": {
            "protocol": "made up by a test",
            "operators": [4, 6],
            "problems": [5, 5],
            **{measure: {"share": shares} for measure in ("answer", "steps", "tokens")},
        },
    }
    (folder / f"{name}_{seed}").mkdir()
    (folder / f"{name}_{seed}" / "evaluation.json").write_text(json.dumps(held))


@pytest.mark.parametrize(("worst", "status"), [(0.5, 0), (0.3, 1), (0.2, 1)])
def test_every_seed_has_to_be_ahead(tmp_path, capsys, worst, status):
    for seed, share in enumerate((0.1, 0.3)):
        run(tmp_path, "RoPE", seed, [0.9, share])
    for seed, share in enumerate((0.6, worst)):
        run(tmp_path, "BiPE-RoPE", seed, [0.1, share])
    out = tmp_path / "result.json"
    assert main([str(tmp_path), "--json", str(out)]) == status
    told = json.loads(out.read_text())["models"]
    assert told["RoPE"]["tokens"]["mean"] == [0.9, 0.2]
    assert told["BiPE-RoPE"]["tokens"]["seeds"] == {"0": [0.1, 0.6], "1": [0.1, worst]}
    assert f"every seed: {status == 0}" in capsys.readouterr().out


def test_runs_that_are_missing_are_told(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "make arithmetic trains them" in capsys.readouterr().out
