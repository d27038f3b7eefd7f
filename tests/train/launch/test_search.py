"""hydra/sweeper=optuna: the lowest validation loss, trial by trial, over kills."""

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

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
    assert all("_lr0.00" in name for name in found)


def test_a_trial_that_diverges_is_pruned_and_named(bipe, tmp_path):
    words = ("-m", "hydra/sweeper=optuna", "optimizer.lr=1e30", "seed=choice(0, 1)")
    words = (*words, "patience=1", "clip=null", "hydra.sweeper.n_trials=1")
    status, out, err = bipe("pretrain", *words)
    assert (status, out) == (2, "")
    assert "loss or gradient was not finite" in err
    assert "bipe: 1 of 1 trials failed" in err
    assert [trial.state.name for trial in study_of(tmp_path).trials] == ["PRUNED"]


def test_a_search_without_a_validation_loss_is_refused(bipe, tmp_path):
    status, _, err = bipe("pretrain", *WORDS, "validate_every=9")
    assert status == 2
    assert "validate_every must be at most steps (3)" in err
    assert runs_in(tmp_path) == []


def test_a_search_without_a_space_is_refused(refused):
    told = refused("pretrain", "-m", "hydra/sweeper=optuna")
    assert told == "hydra/sweeper=optuna has nothing to search; write key='interval(a, b)'"
