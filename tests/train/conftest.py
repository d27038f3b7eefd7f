"""The prepared data of the smoke experiment, once for all tests of this room."""

import pytest

from tests.train.studies import composed
from train.cli import run_stage


@pytest.fixture(scope="session", autouse=True)
def no_home(tmp_path_factory):
    """The caches of the hub belong to the tests; `datasets` reads this when it is first used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder that `bipe prepare experiment=smoke` writes."""
    folder = tmp_path_factory.mktemp("smoke") / "data"
    run_stage("prepare", composed(f"data={folder}"))
    return folder


@pytest.fixture
def smoke(data, tmp_path):
    """Overrides that train on it, into a folder of this test."""
    return (f"data={data}", f"out={tmp_path}", "encoding=bipe_rope")
