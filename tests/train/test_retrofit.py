"""`bipe retrofit`: a run of RoPE learns segments exactly, in part or as a whole."""

import json

import numpy as np
import pytest
import torch

from bipe import Positions
from bipe.checkpoint import load_model
from tests.train.studies import crashing, curve, losses, same_weights, weights
from train.cli import main
from train.evals.rows import FILE, Journal


@pytest.fixture(scope="module")
def base(finished):
    return finished("rope")


@pytest.fixture
def retrofit(base, tmp_path, capsys):
    """Run the command; status and what it told."""

    def run(*words):
        own = {"experiment": "smoke", "checkpoint": base, "out": tmp_path, "steps": 4}
        own |= dict(word.split("=", 1) for word in words)
        status = main(["retrofit", *(f"{key}={value}" for key, value in own.items())])
        return status, capsys.readouterr().err

    return run


@pytest.fixture
def taught(retrofit, tmp_path):
    """Run the command, which must succeed; the run's folder."""

    def run(*words, name):
        status, told = retrofit(*words, f"name={name}")
        assert status == 0, told
        return tmp_path / name

    return run


def config_of(run):
    return json.loads((run / "model" / "config.json").read_text())


def test_a_retrofit_begins_with_the_loss_of_its_base_and_learns_something_else(taught):
    control, *others = (
        taught(f"stretch={way}", name=way) for way in ("none", "gated", "homotopy", "swap")
    )
    first, last = losses(control)[[0, -1]]
    starts, ends = zip(*(losses(run)[[0, -1]] for run in others), strict=True)
    assert [start == first for start in starts] == [True, True, False]
    assert last not in ends
    assert weights(others[0])["scheme.gate"].any()
    found = config_of(others[0])["notes"]
    assert found["stretch"][0]["strategy"]["step"] == pytest.approx(64 / 15, abs=3)
    assert (found["row_length"], found["training"]["command"]) == (64, "retrofit")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_new_parameters_have_a_rate_of_their_own(taught, optimizer):
    """What the checkpoint lacks moves further, in the first step by the factor itself."""
    words = ("stretch=gated", f"optimizer={optimizer}", "schedule.warmup=0", "steps=1")
    rates = (1, 10)
    runs = [taught(*words, f"extend.new_lr={rate}", name=f"r{rate}") for rate in rates]
    first, faster = map(weights, runs)
    for name, each in faster.items():
        expected = 10 * first[name] if name.startswith("scheme.") else first[name]
        np.testing.assert_allclose(each, expected, rtol=1e-5, atol=1e-9, err_msg=name)
    assert curve(runs[0])[0]["lr"] == curve(runs[1])[0]["lr"]


LORA = ("extend.lora={rank: 4, alpha: 8, layers: [query, gate]}", "optimizer.lr=0.01")


@pytest.mark.parametrize(
    "words",
    [("stretch=gated", "extend.distill=1.0"), ("stretch=homotopy",),
     ("stretch=gated", *LORA, "extend.new_lr=10")],
)  # fmt: skip
def test_a_retrofit_that_is_stopped_goes_on_exactly_and_writes_meanwhile(retrofit, taught, words):
    words = (*words, "checkpoint_every=2")
    whole = taught(*words, name="whole")
    with crashing(at=3):
        retrofit(*words, "name=stopped")
    ask = ("--prompt", "1+2", "generate.max_new=4", "generate.temperature=0")
    assert main(["generate", str(whole.parent / "stopped"), *ask]) == 0
    resumed = taught(*words, name="stopped")
    assert curve(resumed) == curve(whole) and same_weights(resumed, whole)


def test_low_ranks_and_what_is_new_are_trained_and_merged(taught, base):
    """The run is an ordinary model, in which the other weights are those of the checkpoint."""
    run = taught("stretch=gated", *LORA, name="lora")
    whole = taught("stretch=gated", name="whole")
    assert losses(run)[0] == losses(whole)[0]
    before, after = weights(base), weights(run)
    assert after.keys() == weights(whole).keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {name for name in before if "query" in name or "mlp.gate" in name}
    assert after["scheme.gate"].any() and after["scheme.intra.table.weight"].any()
    for name in changed:
        size = np.linalg.svd(after[name].astype(float) - before[name], compute_uv=False)
        assert (size[4:] < 1e-5 * size[0]).all()


def test_low_ranks_are_merged_while_training_too_and_refused_in_shards(taught, retrofit, data):
    """The evaluation after the last step is that of the model that is written."""
    same = ("evaluate.split=validation", "evaluate.lengths=[1, 2]", f"data={data}")
    every = ("callbacks=evaluation", "callbacks.evaluation.every=4")
    run = taught("stretch=gated", *LORA, *every, *same, name="lora")
    assert main(["evaluate", "experiment=smoke", f"evaluate.runs={run}", *same]) == 0
    found = {None: {}, 4: {}}
    for row in Journal(run / FILE).rows():
        if row.measure == "perplexity":
            found[row.step][row.length, row.start, row.number] = row.value
    assert found[4] and found[4].items() <= found[None].items()
    one = ("trainer=fsdp2", "trainer.accelerator=cpu", "trainer.devices=1")
    status, told = retrofit("stretch=gated", *LORA, *one, "name=sharded")
    assert status == 2 and "extend.lora needs the whole model on each device" in told


def test_a_teacher_holds_the_model_near_its_base(taught, base):
    runs = [taught("extend.distill=" + str(w), "optimizer.lr=0.03", name=f"w{w}") for w in (0, 9)]
    assert weights(runs[0]).keys() == weights(runs[1]).keys()
    assert losses(runs[0])[0] == losses(runs[1])[0]
    tokens = torch.arange(60)[None] % 50
    at = Positions.from_marks(torch.zeros(1, 60, dtype=torch.uint8))
    before, *others = (
        load_model(run / "model")[0].logits(tokens, at).log_softmax(-1).detach()
        for run in (base, *runs)
    )
    free, held = (float((before.exp() * (before - each)).sum(-1).mean()) for each in others)
    assert held < free


@pytest.fixture
def foreign(tmp_path, capsys):
    """Make of a run one that was trained elsewhere: through a folder of transformers."""

    def made(run):
        folder, out = tmp_path / "hf", tmp_path / "theirs"
        assert main(["convert", str(run), "to=hf", f"out={folder}"]) == 0
        (folder / "bipe.json").unlink()  # what only we write
        assert main(["convert", str(folder), "to=bipe", f"out={out}"]) == 0
        capsys.readouterr()
        return out

    return made


def test_a_foreign_model_takes_its_step_from_the_data(retrofit, foreign, base, data, tmp_path):
    words = (f"checkpoint={foreign(base)}", "name=taught", "steps=2")
    status, told = retrofit(*words)
    assert status == 2 and "does not name its training data; set data=FOLDER" in told
    status, told = retrofit(*words, f"out={tmp_path}/none", "steps=0")
    assert status == 2 and "set stretch.step, the tokens per segment" in told
    assert "or set data=FOLDER" in told
    status, told = retrofit(*words, f"data={data}")
    assert status == 0
    assert f"counted in rows of 64 tokens of {data}: " in told
    step = config_of(tmp_path / "taught")["decoder"]["encoding"]["step"]
    seen = config_of(base)["notes"]["positions"]
    assert step == pytest.approx((seen["token"]["p99.9"] + 1) / (seen["segment"]["p99.9"] + 1), 0.2)
    assert f"{step:.1f} tokens per segment" in told
    words = (*words, f"data={data}", "stretch.step=9.0", "name=typed")
    status, told = retrofit(*words)
    assert status == 0 and "counted in" not in told
    assert config_of(tmp_path / "typed")["decoder"]["encoding"]["step"] == 9


@pytest.mark.parametrize(
    "words",
    [("extend", "checkpoint={}"), ("retrofit", "checkpoint={}"), ("generate", "{}", "-p", "a"),
     ("scrolls", "task=fact_lookup", "checkpoint={}"), ("evaluate", "evaluate.runs={}"),
     ("evaluate", "evaluate.long_ppl={{evaluator: {}}}"), ("report", "report.runs=[{}]")],
)  # fmt: skip
@pytest.mark.parametrize("hub", [True, False])
def test_a_folder_of_transformers_gets_the_command_that_makes_a_run(words, hub, tmp_path, capsys):
    folder = tmp_path / "a llama"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    place, quoted = ("hf://ours/llama",) * 2 if hub else (str(folder), f"'{folder}'")
    words = [word.format(f'"{place}"' if "=[" in word or "={" in word else place) for word in words]
    assert main([*words, f"out={tmp_path}/out"]) == 2
    told = capsys.readouterr().err
    assert f"bipe convert {quoted} to=bipe out=RUN makes a run of it" in told
    assert told.count("\n") == 1 and not (tmp_path / "out").exists()
