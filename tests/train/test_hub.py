"""Models of the Hugging Face Hub in `bipe convert`: fetched and uploaded where a word says so."""

import shutil

import huggingface_hub
import pytest

from bipe.checkpoint import load_model
from train.cli import main

REVISION = "0" * 40


@pytest.fixture(scope="module")
def folder(finished, tmp_path_factory):
    """A small run as a folder of transformers; nothing is uploaded for that."""
    here = tmp_path_factory.mktemp("hub")
    run = shutil.copytree(finished("bipe_rope"), here / "bipe_rope")
    Hub.made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huggingface_hub, "HfApi", Hub)
        assert main(["convert", str(run), "to=hf", f"out={here / 'hf'}"]) == 0
    assert Hub.made == []
    return here / "hf"


@pytest.fixture
def cached(tmp_path, monkeypatch, folder):
    """The cache of the hub, as it is after a download of me/tiny."""
    place = tmp_path / "cache" / "models--me--tiny"
    shutil.copytree(folder, place / "snapshots" / REVISION)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(REVISION)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place.parent))
    return place / "snapshots" / REVISION


@pytest.fixture
def refused(capfd, tmp_path):
    def command(*words):
        assert main(["convert", *words, f"out={tmp_path / 'out'}"]) == 2
        assert not (tmp_path / "out").exists()
        (line,) = capfd.readouterr().err.splitlines()
        return line

    return command


@pytest.mark.slow
def test_a_model_of_the_hub_is_read_by_its_name(cached, folder, tmp_path):
    places = ("hf://me/tiny", f"hf://me/tiny@{REVISION}")
    for number, place in enumerate(places):
        run = tmp_path / str(number)
        assert main(["convert", place, "to=bipe", f"out={run}"]) == 0
        weights = load_model(run / "model")[0].state_dict()
        expected = load_model(folder.parent / "bipe_rope" / "model")[0].state_dict()
        assert weights.keys() == expected.keys()
        assert all(weights[name].equal(each) for name, each in expected.items())


def test_what_cannot_be_fetched_says_why_and_writes_nothing(cached, refused):
    said = refused("hf://me/another", "to=bipe")
    assert "hf://me/another could not be downloaded" in said and "name a downloaded folder" in said
    said = refused("hf://tiny", "to=bipe")
    assert "must name a model on the Hugging Face Hub as OWNER/NAME" in said
    for file in cached.glob("*.safetensors"):
        file.rename(cached / "pytorch_model.bin")
    assert "has no weights as *.safetensors" in refused("hf://me/tiny", "to=bipe")


class Hub:
    """What `push` calls of the hub."""

    made: list

    def create_repo(self, name, *, private, exist_ok):
        self.made.append((name, private))
        return f"https://hub/{name}"

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        self.made.append((repo_id, sorted(each.name for each in folder_path.iterdir())))


def test_a_folder_is_uploaded_whole_on_request_only(folder, tmp_path, monkeypatch, capfd, refused):
    Hub.made = []
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    words = ["convert", str(folder.parent / "bipe_rope"), "to=hf"]
    assert main([*words, f"out={tmp_path / 'a'}", "push=me/tiny"]) == 0
    files = sorted(each.name for each in folder.iterdir())
    assert Hub.made == [("me/tiny", True), ("me/tiny", files)]
    assert "https://hub/me/tiny" in capfd.readouterr().out

    def closed(self, name, **_):
        raise ConnectionError("no token")

    monkeypatch.setattr(Hub, "create_repo", closed)
    assert main([*words, f"out={tmp_path / 'b'}", "push=me/tiny"]) == 2
    assert (tmp_path / "b" / "config.json").exists()  # an upload that fails leaves the folder
    err = capfd.readouterr().err
    assert "push=me/tiny failed (no token)" in err and "hf upload me/tiny" in err
    assert "push=tiny must name" in refused(*words[1:], "push=tiny")
    assert "push is for to=hf" in refused(str(folder), "to=bipe", "push=me/tiny")
