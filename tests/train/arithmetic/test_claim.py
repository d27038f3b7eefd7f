"""What `make arithmetic` claims is computed from the runs, and told when it does not hold."""

import json

import pytest
import yaml

from benchmarks.arithmetic import main
from bipe import Decoder, DecoderConfig
from bipe.checkpoint import save_model
from train.evals.rows import FILE, Journal, Row
from train.fit.runs import CONFIG

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 4}
LEARNED = {"_target_": "bipe.encodings.Learned", "width": 8, "length": 4}
ENCODINGS = {
    "RoPE": ROPE,
    "BiPE-RoPE": {"_target_": "bipe.encodings.Bilevel", "intra": LEARNED, "inter": ROPE},
}


def run(folder, name, seed, shares):
    sizes = {"vocab_size": 11, "width": 8, "n_layer": 1, "n_head": 2, "mlp_width": 8}
    here = folder / f"{name}_{seed}"
    save_model(Decoder(DecoderConfig(**sizes, encoding=ENCODINGS[name])), here / "model")
    (here / CONFIG).write_text(yaml.safe_dump({"seed": seed}))
    Journal(here / FILE).append(
        "made up by a test",
        [
            Row(task="arithmetic", measure=measure, operators=operators, value=value, note="so")
            for measure in ("answer", "steps", "tokens")
            for operators, value in zip((4, 6), shares, strict=True)
        ],
    )


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
    assert "run make arithmetic" in capsys.readouterr().out
