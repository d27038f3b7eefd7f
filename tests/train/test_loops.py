"""docs/loops.md: a script of one's own trains with our Lightning modules."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")


def test_our_modules_train_from_a_script(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    names = {"data": str(data)}
    exec(compile(code, "loops.md", "exec", dont_inherit=True), names)
    assert names["trainer"].global_step == 6
    assert names["rows"].consumed_rows == 6 * 4
