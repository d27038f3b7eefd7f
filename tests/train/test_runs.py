"""Who may write into a run's folder, what is left out of it, and how runs are found."""

import pytest
import yaml

from train.disk.manifest import redacted
from train.errors import RunError
from train.fit import runs
from train.fit.checkpoints import find_places
from train.fit.runs import claim, read_config, withdrawn_on_failure

CONFIG = {"seed": 0, "optimizer": {"lr": 0.1}, "rows": {"micro_batch": 4}, "out": "here"}


def trained(folder, config=CONFIG):
    """A folder as a finished run leaves it."""
    claim(folder, if_exists="refuse", config=config)
    (folder / runs.MODEL).mkdir()
    (folder / runs.CHECKPOINTS).mkdir()
    (folder / runs.METRICS).write_text("step\n1\n2\n")
    (folder / runs.EVALUATION).write_text("{}")
    (folder / "notes.txt").write_text("mine")
    return folder


def test_a_free_folder_is_claimed_and_another_run_is_refused_and_left_alone(tmp_path):
    claim(tmp_path / "a" / "b", if_exists="refuse", config=CONFIG)
    assert read_config(tmp_path / "a" / "b") == CONFIG
    folder = trained(tmp_path / "run")
    told = r"run already contains a run: set if_exists=auto .*overwrite"
    with pytest.raises(RunError, match=told):
        claim(folder, if_exists="refuse", config=CONFIG)
    assert (folder / runs.MODEL).exists()


def test_overwriting_removes_the_old_run_and_nothing_else(tmp_path):
    folder = trained(tmp_path / "run")
    claim(folder, if_exists="overwrite", config={"seed": 3})
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "notes.txt"]
    assert read_config(folder) == {"seed": 3}


def test_a_failure_withdraws_the_claim_and_leaves_what_was_trained_or_is_not_ours(tmp_path):
    names = {}
    for name in ("claimed", "beside", "trained"):
        folder = tmp_path / name
        trained(folder) if name == "trained" else claim(folder, if_exists="refuse", config=CONFIG)
        if name == "beside":
            (folder / "notes.txt").write_text("mine")
        before = sorted(folder.iterdir())
        with pytest.raises(KeyError), withdrawn_on_failure(folder):
            if name == "claimed":
                (folder / runs.METRICS).write_text("step,loss\n")
            raise KeyError
        names[name] = [path.name for path in folder.iterdir()] if folder.exists() else None
        assert name != "trained" or sorted(folder.iterdir()) == before
    assert (names["claimed"], names["beside"]) == (None, ["notes.txt"])


SECRETS = ["api_key", "WANDB_API_KEY", "hf_token", "token", "auth_token", "client_secret"]
SECRETS += ["password", "credentials", "use_auth_token", "aws_secret_access_key", "passphrase"]
PLAIN = ["tokenizer", "text_key", "id_key", "kind_key", "tokens_per_batch", "max_tokens", "passkey"]
PLAIN += ["special_tokens", "meta_keys", "n_head", "name", "path", "source", "keep_checkpoints"]


def test_values_of_secrets_are_left_out_and_others_kept(tmp_path):
    for key in SECRETS:
        config = {"logger": {key: "s3cret", "deep": [{key: "s3cret"}], key.upper(): ["s3cret"]}}
        assert "s3cret" not in yaml.safe_dump(redacted(config)), key
    address = redacted({"path": "https://user:s3cret@host/data.jsonl?token=s3cret&x=1"})
    assert "s3cret" not in str(address) and "host/data.jsonl" in address["path"]
    assert redacted(dict.fromkeys(PLAIN, "value")) == dict.fromkeys(PLAIN, "value")
    claim(tmp_path, if_exists="refuse", config={"logger": {"api_key": "s3cret"}})
    assert "s3cret" not in (tmp_path / runs.CONFIG).read_text()
    claim(tmp_path, if_exists="auto", config={"logger": {"api_key": "0ther"}})


def homes(places):
    return [place.home for place in find_places(places)]


def test_runs_are_found_by_path_folder_and_pattern(tmp_path):
    a, b, c = (trained(tmp_path / "study" / name) for name in "abc")
    (tmp_path / "study" / "data").mkdir()
    claim(tmp_path / "study" / "unfinished", if_exists="refuse", config=CONFIG)
    study = str(tmp_path / "study")
    assert homes(study) == [a, b, c]
    assert homes(str(b)) == [b]
    assert homes(f"{study}/[ac]") == [a, c]
    assert homes([str(c), study, f"{study}/*"]) == [c, a, b]


def test_a_place_without_runs_is_named_and_a_name_may_look_like_a_pattern(tmp_path):
    (tmp_path / "empty").mkdir()
    claim(tmp_path / "unfinished", if_exists="refuse", config=CONFIG)
    for place in ("nowhere", "empty", "em*", "[x", "unfinished"):
        with pytest.raises(RunError, match=r"evaluate.runs: .* contains no trained run"):
            find_places(str(tmp_path / place), key="evaluate.runs")
    run = trained(tmp_path / "lr[0.1]")
    assert homes(str(run)) == [run]
