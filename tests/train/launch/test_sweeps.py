"""Sweeps and searches: nothing starts before all is checked, what fails is named.

The names of runs hold what changes, in one order, the seed last.
"""

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from tests.train.studies import curve, typed
from tests.train.test_distributed import LIMIT_S, TWO, start
from train.launch import composition
from train.launch.sweeps.search import _distribution
from train.launch.sweeps.sweep import Sweep


@pytest.fixture
def folders(tmp_path):
    def found():
        hidden = (".submitit", "here")
        return {path.name for path in tmp_path.iterdir() if path.name not in hidden}

    return found


def test_a_sweep_is_checked_whole_before_its_first_run(bipe, folders):
    for swept, told in (
        ("optimizer.lr=1e-3,-1", "optimizer.lr=-1: optimizer.lr must be above 0, was: -1"),
        ("steps=1,x", "bipe: steps=x: steps must be int, was: 'x'"),
        ("row_length=64,10000000", "row_length=10000000: row_length must be at most"),
        ("seed=1,1", "would be the same for 2 trials"),
    ):
        status, _, err = bipe("pretrain", "-m", swept)
        assert (status, folders()) == (2, set())
        assert told in err


def test_a_folder_that_is_taken_ends_a_sweep_before_it_starts(bipe, folders, tmp_path):
    assert bipe("pretrain", "-m", "seed=1,2", "steps=1")[0] == 0
    status, _, err = bipe("pretrain", "-m", "seed=0,1", "steps=1", "if_exists=refuse")
    assert status == 2
    assert "seed=1: " in err and "bipe_rope_seed1 already contains a run" in err
    status, _, err = bipe("pretrain", "-m", "seed=0,1", "steps=2")
    assert status == 2
    assert "seed=1: " in err and "steps was 1, is 2" in err
    assert folders() == {"bipe_rope_seed1", "bipe_rope_seed2"}
    before = curve(tmp_path / "bipe_rope_seed1")
    assert bipe("pretrain", "-m", "seed=0,1", "steps=1")[0] == 0  # it goes on where it was
    assert folders() == {f"bipe_rope_seed{seed}" for seed in range(3)}
    assert curve(tmp_path / "bipe_rope_seed1") == before


def swept(*words, data, out):
    """Run a sweep in processes of its own; its exit status and what it said."""
    process = start("-m", f"data={data}", f"out={out}", *words, cwd=out)
    err = process.communicate(timeout=LIMIT_S)[1]
    return process.returncode, err


@pytest.mark.slow
def test_a_trial_that_fails_is_named_and_the_others_are_trained(data, tmp_path):
    """Its loss diverges, which is not known before it runs; each trial has two ranks."""
    words = ("optimizer.lr=1e30,1e-3", "steps=3", "patience=1", "clip=null")
    words += ("trainer=ddp", "rows.micro_batch=2", *TWO)
    status, err = swept(*words, data=data, out=tmp_path)
    assert status == 2, err
    assert "bipe: optimizer.lr=1e30: " in err
    assert "loss or gradient was not finite for 1 steps" in err
    assert "bipe: 1 of 2 trials failed" in err
    assert "Traceback" not in err
    assert (tmp_path / "bipe_rope_optimizer.lr=1e-3" / "model").exists()
    assert not (tmp_path / "bipe_rope_optimizer.lr=1e30" / "model").exists()


@pytest.mark.slow
def test_a_trial_whose_process_is_killed_fails_the_sweep(data, tmp_path):
    """As the out-of-memory killer does it; a test optimizer kills what has its learning rate."""
    killed = ("optimizer._target_=tests.train.launch.killed.AdamW", "allowed_targets=[tests.]")
    here = ("hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5")
    words = (*here, *killed, "optimizer.lr=1e-3,0.5", "steps=1")
    status, err = swept(*words, data=data, out=tmp_path)
    assert status == 1, err
    assert "bipe: optimizer.lr=0.5: " in err and "bipe: 1 of 2 trials failed" in err
    assert (tmp_path / "bipe_rope_optimizer.lr=1e-3" / "model").exists()


WORDS = ("-m", "hydra/sweeper=optuna", "steps=3", "optimizer.lr=tag(log, interval(1e-4, 1e-2))")


def study_of(folder):
    backend = JournalFileBackend(str(folder / "search.journal"))
    return optuna.load_study(study_name="bipe", storage=optuna.storages.JournalStorage(backend))


def runs_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("bipe_rope"))


@pytest.mark.slow
def test_a_search_goes_on_with_the_trial_that_was_cut_off(bipe, tmp_path):
    words = (*WORDS, "rows.packing=concat,best_fit")
    status, out, err = bipe("pretrain", *words, "hydra.sweeper.n_trials=2")
    assert status == 0, err
    study = study_of(tmp_path)
    assert out.startswith(f"best of 2 trials: validation loss {study.best_value:.4f} of ")
    cut = study.ask(study.trials[0].distributions)
    status, out, err = bipe("pretrain", *words, "hydra.sweeper.n_trials=3")
    assert status == 0, err
    assert out.startswith("best of 3 trials: ")
    assert study_of(tmp_path).trials[cut.number].state.name == "COMPLETE"
    found = runs_in(tmp_path)
    assert [name.rpartition("_")[2] for name in sorted(found, key=lambda n: n[-1])] == [
        "trial0", "trial1", "trial2",
    ]  # fmt: skip
    assert all("_optimizer.lr=0.00" in name for name in found)


@pytest.mark.slow
def test_a_search_that_is_resumed_tries_what_it_would_have_tried(bipe, tmp_path):
    for out, budgets in (("whole", [3]), ("resumed", [1, 3])):
        for budget in budgets:
            words = (*WORDS, f"out={tmp_path / out}", f"hydra.sweeper.n_trials={budget}")
            assert bipe("pretrain", *words)[0] == 0
    whole, resumed = ([trial.params for trial in study_of(tmp_path / out).trials]
                      for out in ("whole", "resumed"))  # fmt: skip
    assert whole == resumed and len({str(params) for params in whole}) == 3
    for other, told in (
        ("encoding=alibi", "had encoding="),
        ("clip=interval(0.5,2.0)", "had clip="),
        ("hydra.sweeper.direction=maximize", "must be minimize"),
    ):
        status, out, err = bipe("pretrain", *words, other)
        assert (status, out) == (2, "") and told in err and "study_name" in err
    assert "best of 3" in bipe("pretrain", *words)[1]


def test_the_trials_of_a_search_may_be_in_a_database(bipe, tmp_path):
    database = f"sqlite:///{tmp_path / 'search.db'}"
    words = (*WORDS, f"hydra.sweeper.storage={database}", "hydra.sweeper.n_trials=1")
    assert bipe("pretrain", *words)[0] == 0
    assert len(optuna.load_study(study_name="bipe", storage=database).trials) == 1


def test_a_trial_that_diverges_is_pruned_and_named(bipe, tmp_path):
    words = ("-m", "hydra/sweeper=optuna", "optimizer.lr=1e30", "seed=choice(0, 1)")
    words = (*words, "patience=1", "clip=null", "hydra.sweeper.n_trials=1")
    status, out, err = bipe("pretrain", *words)
    assert (status, out) == (2, "")
    assert "loss or gradient was not finite" in err
    assert "bipe: 1 of 1 trials failed" in err
    assert [trial.state.name for trial in study_of(tmp_path).trials] == ["PRUNED"]
    assert "no trial of the search has a validation loss" in bipe("pretrain", *words)[1]


def test_a_search_of_nothing_or_without_a_validation_loss_is_refused(bipe, tmp_path):
    for words, told in (
        ((*WORDS, "validate_every=9"), "validate_every must be at most steps (3)"),
        ((*WORDS, "name=x"), "would be the same for all trials; remove it: names show"),
        (WORDS[:2], "hydra/sweeper=optuna has nothing to search; write key='interval(a, b)'"),
    ):
        status, _, err = bipe("pretrain", *words)
        assert status == 2 and told in err
        assert runs_in(tmp_path) == []
    assert bipe("pretrain", *WORDS, "hydra.sweeper.n_trials=1")[0] == 0  # mended
    assert len(runs_in(tmp_path)) == 1


@pytest.mark.parametrize(
    ("values", "last"), [("range(1, 10, 2)", 9), ("range(0, 1, 0.3)", 0.9), ("range(9, 0, -4)", 9)]
)
def test_a_search_has_the_last_number_of_a_range(values, last):
    assert _distribution(composition.parsed(f"a={values}")).high == last


@pytest.mark.parametrize("values", ["shuffle(1,2,3)", "shuffle(choice(1,2,3))"])
def test_a_search_finds_its_choices_in_one_order(values):
    spaces = (_distribution(composition.parsed(f"a={values}")).choices for _ in range(20))
    assert {*spaces} == {("1", "2", "3")}


def test_a_search_of_no_interval_is_refused_with_its_key(bipe):
    status, _, err = bipe("pretrain", *WORDS[:2], "optimizer.lr=interval(2, 1)")
    assert status == 2 and "bipe: optimizer.lr: `low <= high`" in err


OWN = "_target_: bipe.encodings.RoPE\nhead_width: 8\ntheta: 70.0\n"


@pytest.fixture
def named(tmp_path, data):
    """The names of a sweep's trials, or of the only run; FOLDER has an encoding of the user's."""
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding" / "mine_1.yaml").write_text(OWN)
    own = ("--config-dir", str(tmp_path), "experiment=smoke", f"data={data}", f"out={tmp_path}")

    def found(*words):
        if "-m" not in words:
            return composition.composed(typed("pretrain", *own, *words)).name
        words = typed("pretrain", *own, *words)
        with composition.opened(words) as overrides:
            made = Sweep.of(words, overrides)
            trials = made.trials([*made.combinations()])
        if last := [word for word in words.overrides if word.startswith("seed=")][-1:]:
            assert "," in last[0] or {t.config.seed for t in trials} == {int(last[0][5:])}
        return [trial.name for trial in trials]

    return found


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("", "bipe_rope"),
        ("encoding=hirope_window", "hirope_window"),
        ("encoding=mine_1 seed=1", "mine_1"),
        ("encoding=bilevel encoding@encoding.inter=alibi encoding.intra.length=64",
         "bilevel_inter=alibi_intra.length=64"),
        ("encoding=multilevel encoding@encoding.encodings.paragraph=t5",
         "multilevel_encodings.paragraph=t5"),
        ("encoding=rope encoding.theta=5e5", "rope_theta=5e5"),
        ("encoding=rope +stretch@encoding.stretch=linear", "rope_stretch=linear"),
        ("encoding=rope_partial encoding.part=[0.0,0.25]", "rope_partial_part=_0.0_0.25"),
        ("encoding=swan name=own", "own"),
        ("experiment=arithmetic_small encoding=hirope seed=3", "hirope_3"),
    ],
)  # fmt: skip
def test_a_run_has_the_name_of_the_encoding_that_was_typed(named, words, name):
    assert named(*words.split()) == name


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("encoding=mine_1,rope seed=0,1", "mine_1_seed0 mine_1_seed1 rope_seed0 rope_seed1"),
        ("encoding=rope encoding.theta=1e3,1e4 seed=2",
         "rope_encoding.theta=1e3 rope_encoding.theta=1e4"),
        ("seed=1 seed=0,1 clip=2 clip=1,3 seed=1", "bipe_rope_clip=1 bipe_rope_clip=3"),
        ("encoding=rope clip=1.0,null", "rope_clip=1.0 rope_clip=null"),
        ("schedule=wsd,cosine", "bipe_rope_schedule=wsd bipe_rope_schedule=cosine"),
        ("report.out=/a/data,/b/data", "bipe_rope_report.out=_a_data bipe_rope_report.out=_b_data"),
        ("name='mine_${seed}' seed=0,1", "mine_0 mine_1"),
        ("name=r${hydra:job.num} clip=1,2", "r0 r1"),
        # The name of an experiment keeps its seed at the end.
        ("experiment=arithmetic_small encoding=rope,alibi seed=0,1",
         "rope_0 rope_1 alibi_0 alibi_1"),
        ("experiment=arithmetic_small optimizer.lr=0.1,0.2 seed=2",
         "bipe_rope_optimizer.lr=0.1_2 bipe_rope_optimizer.lr=0.2_2"),
    ],
)  # fmt: skip
def test_what_a_sweep_changes_is_in_the_name_and_the_seed_comes_last(named, words, made):
    assert named("-m", *words.split()) == made.split()


def test_a_long_name_is_cut_and_stays_its_own(named):
    long = ",".join(letter * 90 for letter in "ab")
    keys = ("report.title", "generate.prompt", "generate.file")
    found = named("-m", *(f"{key}={long}" for key in keys))
    assert len(set(found)) == 8
    assert max(map(len, found)) < 200
