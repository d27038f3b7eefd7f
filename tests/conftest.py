"""Shared by all tests: shapes in the types are checked, golden data is found."""

import functools
import gc
import inspect
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import absl.logging
import hypothesis
import jaxtyping
import pytest
import torch
from jaxtyping import config as jaxtyping_config

CHECKED = jaxtyping.jaxtyped
CALLS: Counter = Counter()  # of each function in this test


def sometimes(fn=None, *, typechecker):
    """Check the shapes of calls 1, 2, 4, 8 ... in each test: those of all take 2/3 of its time."""
    if fn is None:
        return functools.partial(sometimes, typechecker=typechecker)
    if not inspect.isfunction(fn):
        return CHECKED(fn, typechecker=typechecker)
    # Made when it is needed: that takes longer than most calls, and inner functions are made often.
    checked = functools.cache(lambda: CHECKED(fn, typechecker=typechecker))

    @functools.wraps(fn)
    def called(*args, **kwargs):
        if jaxtyping_config.jaxtyping_disable or torch.compiler.is_compiling():
            return fn(*args, **kwargs)
        CALLS[fn.__code__] = count = CALLS[fn.__code__] + 1
        return (fn if count & (count - 1) else checked())(*args, **kwargs)

    return called


# Before anything imports bipe: every annotated shape is checked in every test.
jaxtyping.jaxtyped = sometimes
jaxtyping.install_import_hook("bipe", "beartype.beartype")
# Threads that wait for each other cost these small models most of their time. Where the variable is
# missing, a launcher of Lightning's takes all cores, for this test and all that come after it.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)
# Lightning asks for the names of callers; their source, which it does not read, takes 0.3 s.
inspect.stack = functools.partial(inspect.stack, 0)
# No limit on the time of an example: machines are shared. `make fuzz` takes the long profile.
hypothesis.settings.register_profile("bipe", deadline=None, max_examples=25)
hypothesis.settings.register_profile("long", deadline=None, max_examples=400)
hypothesis.settings.load_profile("bipe")
# absl (of rouge_score and TensorBoard) keeps the stderr of its import, and closes it when anybody
# configures logging (submitit does): here that would be the file of pytest's capture.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
# Tests send it; under nohup it would stay ignored, as it should.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Begin with the files of slow tests: a worker takes whole files, and none should come last."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """Keep what was imported out of the collections of garbage, which took a third of a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def empty_folder(tmp_path_factory):
    """Tests start in an empty folder, so that none of them reads what lies where pytest began."""
    folder = tmp_path_factory.mktemp("start")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(autouse=True)
def on_its_own(empty_folder):
    """Begin to count the calls of this test, and see that it leaves the first folder empty."""
    CALLS.clear()
    yield
    assert not any(empty_folder.iterdir())
    # Later tests must not wait for ranks that this one names in the environment.
    assert os.environ.pop("LOCAL_RANK", None) is None


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
