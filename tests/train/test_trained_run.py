"""A trained run, read without its weights, and the one rule of which runs are alike."""

from pathlib import Path

import pytest

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import save_model
from train.errors import RunError
from train.fit.checkpoints import Place
from train.fit.trained_run import group_by_arm, read_run, stem

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
LEARNED = {"_target_": "bipe.encodings.Learned", "width": 16, "length": 8}
FLAT = {"_target_": "bipe.encodings.Flat", "encoding": ROPE}
BILEVEL = {"_target_": "bipe.encodings.Bilevel", "intra": LEARNED, "inter": ROPE}


def trained(folder: Path, *, encoding=FLAT, seed=0, data="a", tied=False, **config) -> Path:
    model = Decoder(
        DecoderConfig(vocab_size=11, width=16, n_layer=1, n_head=2, mlp_width=16,
                      encoding=encoding, tied_head=tied)
    )  # fmt: skip
    model.init_weights(seed=seed)
    save_model(model, folder / "model", notes={"row_length": 64, "data": data})
    told = {"seed": seed, "steps": 5, "rows": {"global_batch": 4, "micro_batch": 2}, **config}
    lines = "\n".join(f"{key}: {value}" for key, value in told.items())
    (folder / "config.yaml").write_text(lines)
    return folder


@pytest.mark.parametrize(("encoding", "tied"), [(FLAT, True), (BILEVEL, False)])
def test_a_run_is_described_as_its_model_would(tmp_path, encoding, tied):
    run = read_run(Place.of(trained(tmp_path / "mine", encoding=encoding, tied=tied)))
    model = Decoder(DecoderConfig(**run.model))
    assert run.parameters == sum(p.numel() for p in model.parameters())
    assert run.bilevel == (encoding is BILEVEL)
    assert (run.name, run.seed, run.row_length) == ("mine", 0, 64)
    assert run.model_name == ("BiPE-RoPE" if run.bilevel else "RoPE")
    assert run.family == "RoPE"


def test_runs_that_differ_by_their_seed_are_an_arm(tmp_path):
    same = [read_run(Place.of(trained(tmp_path / f"rope_{seed}", seed=seed))) for seed in (1, 0)]
    later = read_run(Place.of(trained(tmp_path / "later", seed=2, out="elsewhere", log_every=7)))
    others = [
        read_run(Place.of(trained(tmp_path / "longer", steps=6))),
        read_run(Place.of(trained(tmp_path / "bilevel", encoding=BILEVEL))),
        read_run(Place.of(trained(tmp_path / "cut_otherwise", data="b"))),
    ]
    groups = group_by_arm([*same, others[0], later, *others[1:]])
    names = [[run.name for run in group] for group in groups]
    assert names == [["rope_0", "rope_1", "later"], ["longer"], ["bilevel"], ["cut_otherwise"]]


def test_seeds_that_come_twice_are_told_apart_by_their_folders(tmp_path):
    runs = [
        read_run(Place.of(trained(tmp_path / f"{name}_{seed}", seed=seed)))
        for name in ("first", "second")
        for seed in (0, 1)
    ]
    names = [[run.name for run in group] for group in group_by_arm(runs)]
    assert names == [["first_0", "first_1"], ["second_0", "second_1"]]


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="nothing"):
        read_run(Place.of(tmp_path / "nothing"))
    broken = trained(tmp_path / "broken")
    (broken / "model" / "model.safetensors").write_bytes(b"\0" * 9)
    with pytest.raises(RunError, match="broken"):
        read_run(Place.of(broken))


def test_a_seed_is_taken_off_the_end_of_a_name_alone():
    assert stem("rope_1", 1) == "rope" and stem("rope_seed1", 1) == "rope"
    assert stem("rope_11", 1) == "rope_11" and stem("1_rope", 1) == "1_rope"
