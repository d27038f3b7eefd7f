"""Names of the runs of a sweep: what changes is in them, in one order, the seed last."""

import itertools

import pytest

from tests.train.studies import composed
from train.errors import ConfigError
from train.launch.names import Trial, trial_names


def names(*words, command="pretrain", **swept):
    """The names of the trials that sweep these keys ("__" is a dot)."""
    keys = [key.replace("__", ".") for key in swept]
    trials = []
    for values in itertools.product(*swept.values()):
        changes = dict(zip(keys, values, strict=True))
        made = tuple(f"{key}={value}" for key, value in changes.items())
        trials.append(Trial(words=(*words, *made), changes=changes, config=composed(*words, *made)))
    return trial_names(command, trials)


def test_what_a_sweep_changes_is_in_the_name_and_the_seed_comes_last():
    swept = {
        "seed": ("0", "1"),
        "encoding": ("rope", "bipe_alibi"),
        "optimizer__lr": ("1e-3", "1e-2"),
    }
    found = names(**swept)
    assert found[0] == "rope_lr0.001_seed0"
    assert found[-1] == "bipe_alibi_lr0.01_seed1"
    assert len(set(found)) == 8


def test_a_run_alone_is_named_after_its_encoding():
    assert names(encoding=("rope",)) == ["rope"]


def test_words_are_words_and_numbers_have_their_key():
    assert names(schedule=("wsd", "cosine")) == ["bipe_rope_wsd", "bipe_rope_cosine"]
    assert names(recompute=("true", "false"))[0] == "bipe_rope_recompute_true"
    assert names(row_length=("32", "64"))[0] == "bipe_rope_row_length32"
    assert names(clip=("null", "1.0")) == ["bipe_rope_clip_null", "bipe_rope_clip1"]


def test_what_one_word_does_not_tell_apart_is_written_with_its_key():
    found = names(data=("/a/data", "/b/data"))
    assert found == ["bipe_rope_data_a_data", "bipe_rope_data_b_data"]


def test_the_name_of_an_experiment_keeps_its_seed_at_the_end():
    words = ("experiment=arithmetic_small",)
    assert names(*words, encoding=("rope", "alibi"), seed=("0", "1"))[-1] == "alibi_1"
    assert names(*words, seed=("2", "3"), optimizer__lr=("0.1",))[0] == "bipe_rope_2"
    assert names(*words, seed=("2",), optimizer__lr=("0.1", "0.2"))[0] == "bipe_rope_lr0.1_2"


def test_a_name_of_the_user_that_trials_would_share_is_refused():
    with pytest.raises(ConfigError) as told:
        names("name=mine", seed=("0", "1"))
    assert str(told.value) == (
        "name=mine would be the run of 2 trials (seed=0; seed=1); "
        "leave out name, since names carry what a sweep changes"
    )
    assert names("name='mine_${seed}'", seed=("0", "1")) == ["mine_0", "mine_1"]


def test_one_configuration_twice_is_refused():
    with pytest.raises(ConfigError, match="each trial must differ from the others"):
        names(seed=("1", "1"))


def test_a_long_name_is_cut_and_stays_its_own():
    long = tuple(f"{letter * 90}" for letter in "ab")
    found = names(report__title=long, generate__prompt=long, generate__file=long)
    assert len(set(found)) == 8
    assert max(map(len, found)) < 200
