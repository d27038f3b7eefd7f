"""Shared by all tests: shapes in the types are checked, golden data is found."""

import os
import signal
import sys
from pathlib import Path

import absl.logging
import hypothesis
import pytest
import torch
from jaxtyping import config as jaxtyping_config
from jaxtyping import install_import_hook

# Before anything imports bipe: every annotated shape is checked at every call in the tests.
install_import_hook("bipe", "beartype.beartype")
# No limit on the time of an example: machines are shared.
hypothesis.settings.register_profile("bipe", deadline=None)
hypothesis.settings.load_profile("bipe")
# absl (of rouge_score and TensorBoard) keeps the stderr of its import, and closes it when anybody
# configures logging (submitit does): here that would be the file of pytest's capture.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
# Tests send it; under nohup it would stay ignored, as it should.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads that wait for each other cost these small models most of their time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def no_state(tmp_path_factory):
    """What is remembered of runs is the user's own, not that of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden data: $BIPE_GOLDEN, or the one in the repository."""
    return Path(os.environ.get("BIPE_GOLDEN", Path(__file__).parent / "golden"))


@pytest.fixture
def unchecked_types():
    """Switch the checker off: what a user, who runs without it, gets for a wrong value."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)
