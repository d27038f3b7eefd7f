"""A kill at any write, rename or removal leaves what is whole or absent, and the next one tidies.

Each place is tried in a process of its own, which ends there as SIGKILL ends it: no handler runs.
"""

import itertools
import os
import shutil

import pytest

from bipe.sealing import whole_folder
from tests.trust.conftest import tree
from train.data.store import workplace as top
from train.data.store.export import export

CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync")
KILLED = 9


def killed_at(number, work):
    """Run `work` in a child that ends before its call `number`; False if there are fewer calls."""
    child = os.fork()
    if not child:
        count = itertools.count()

        def before(call):
            def wrapped(*args, **kwargs):
                if next(count) == number:
                    os._exit(KILLED)
                return call(*args, **kwargs)

            return wrapped

        for name in CALLS:
            setattr(os, name, before(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def every_kill(work, check):
    """Kill `work` before each of its calls; `check` looks at what is left, and cleans up."""
    number = 0
    while killed_at(number, work):
        check()
        number += 1
    assert number > 3
    return number


def test_a_folder_is_the_old_or_the_new_one_and_what_a_kill_left_is_removed(tmp_path):
    out = tmp_path / "out"

    def write(text="new"):
        with whole_folder(out, {"a": text, "b": text}) as fresh:
            (fresh / "c").write_text(text)

    def check():
        if out.exists():
            assert {path.read_text() for path in out.iterdir()} in ({"old"}, {"new"})
            assert len([*out.iterdir()]) == 3
        write("old")  # the next one
        assert tree(tmp_path) == {"out/a": "old", "out/b": "old", "out/c": "old"}

    write("old")
    every_kill(write, check)


def test_the_former_folder_comes_back_if_its_successor_fails(tmp_path):
    """Killed between the two renames, and then the next one fails as well."""
    out = tmp_path / "out"
    with whole_folder(out, {"a": "old"}):
        pass

    def write():
        with whole_folder(out, {"a": "new"}):
            pass

    def check():
        with pytest.raises(ZeroDivisionError), whole_folder(out, {"a": "third"}):
            raise ZeroDivisionError
        assert tree(tmp_path) in ({"out/a": "old"}, {"out/a": "new"})
        shutil.rmtree(out)
        with whole_folder(out, {"a": "old"}):
            pass

    every_kill(write, check)


def test_the_folder_of_a_living_process_is_not_removed(tmp_path):
    out = tmp_path / "out"
    with whole_folder(out, {"a": "first"}) as first, whole_folder(out, {"a": "second"}):
        assert (first / "a").read_text() == "first"
    assert tree(tmp_path) == {"out/a": "first"}


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.slow
def test_an_export_is_whole_or_absent_and_the_same_command_starts_over(data, tmp_path, empty):
    expected = tmp_path / "expected"
    [*export(data, out=expected, format="megatron")]
    out = tmp_path / "here" / "out"

    def write():
        out.parent.mkdir(exist_ok=True)
        if empty:
            out.mkdir(exist_ok=True)
        return [*export(data, out=out, format="megatron")]

    def check():
        if out.exists() and any(out.iterdir()):
            assert tree(out) == tree(expected)
            shutil.rmtree(out)
        made = write()
        assert all(path.is_file() for each in made for path in each.files)
        assert tree(out) == tree(expected) and [*out.parent.iterdir()] == [out]
        shutil.rmtree(out)

    every_kill(write, check)


def test_an_installation_of_data_goes_on_and_leaves_no_workplace(data, tmp_path):
    out = tmp_path / "out"
    part = out / top.PART

    def begin():
        shutil.rmtree(out, ignore_errors=True)
        part.mkdir(parents=True)
        shutil.copytree(data, part / top.WHOLE)
        (part / top.PLAN).write_text("{}")
        (part / "parts" / "text" / "0").mkdir(parents=True)
        (part / "parts" / "text" / "0" / "part.json").write_text("{}")

    def finish():
        with top.workplace(out) as place:
            if not top.recover(place, out):
                top.install(place, out)

    def check():
        if top.finished(out) is None:
            finish()
        top.tidy(out)
        assert tree(out) == tree(data) and not part.exists()
        begin()

    begin()
    every_kill(finish, check)


def test_work_in_progress_is_not_tidied(data, tmp_path):
    shutil.copytree(data, tmp_path / "out")
    part = tmp_path / "out" / top.PART
    part.mkdir()
    (part / top.PLAN).write_text("{}")
    top.tidy(tmp_path / "out")
    assert (part / top.PLAN).exists()
