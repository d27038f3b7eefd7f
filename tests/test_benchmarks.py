"""The measurements: they start beside a rival of their name, and changes are drawn by seed."""

import subprocess
import sys
from pathlib import Path

from benchmarks.mutations import all_changes, draw

ROOT = Path(__file__).parents[1]
SOURCE = '''
def half(x: int = 3) -> "1 + 1":
    """Not 2 == 2."""
    if not x:
        raise ValueError(f"{x + 1}")
    return x // 2 if x > 1 and x < 9 else x

class A:
    def __repr__(self):
        return 1 + 1
'''
CHANGED = {
    'def half(x: int = 4) -> "1 + 1":',
    "if (x):",
    "if False:",
    "return None",
    "return (x * 2) if x > 1 and x < 9 else x",
    "return x // 3 if x > 1 and x < 9 else x",
    "return x // 2 if (x > 1 or x < 9) else x",
    "return x // 2 if (x >= 1) and x < 9 else x",
    "return x // 2 if x > 2 and x < 9 else x",
    "return x // 2 if x > 1 and (x <= 9) else x",
    "return x // 2 if x > 1 and x < 10 else x",
    "return x // 2 if False else x",
}


def test_changes_are_of_behaviour_and_drawn_by_seed(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "half.py").write_text(SOURCE)
    found = all_changes(tmp_path, ["room"])
    assert {change.after.strip() for change in found} == CHANGED
    assert len({change.line for change in draw(found, 40, 0)}) == len(draw(found, 40, 0)) == 3
    (tmp_path / "room" / "half.py").write_text(f"import os\n{SOURCE}")
    moved = draw(all_changes(tmp_path, ["room"]), 40, 1)
    assert [c.after for c in moved] == [c.after for c in draw(found, 40, 1)]


def test_a_script_starts_beside_a_package_of_its_name(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    program = (
        f"import sys; sys.path.append({str(tmp_path)!r}); import runpy; sys.argv[1:] = ['-h'];"
    )
    program += "runpy.run_module('benchmarks.mutations', run_name='__main__', alter_sys=True)"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "--old" in done.stdout, done.stderr
