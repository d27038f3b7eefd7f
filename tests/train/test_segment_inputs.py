"""What `bipe segment` reads and by what: rows, own segmenters, tokens, scripts without spaces."""

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from bipe.build import build
from segmenters import Mixed
from segmenters.registry import SEGMENTERS, make
from segmenters.show import CutText, page, shown
from train.data.rows.named_segmenter import named_segmenter

OPTIONS = sorted((Path(__file__).parents[2] / "conf" / "segmenter").glob("*.yaml"))


def test_rows_are_documents_with_their_fields(tmp_path, segment, facts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"text": "x = (1,\n 2)\n", "path": "a.py", "said": "One. Two."},
        {"text": "One. Two.", "said": "One. Two. Three."},
    ]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("a.csv").write_text('text,said\n"One. ""Two"".",No\n')
    pq.write_table(pa.Table.from_pylist(rows), "a.parquet")
    found = [
        [(each["segmenter"], each["segments"]) for each in facts(*words.split())]
        for words in ("a.jsonl", "a.parquet", "a.jsonl --text-key said", "a.csv --text-key text")
    ]
    assert found[0] == found[1] == [("code (python)", 1), ("prose", 2)]
    assert found[2][1] == ("prose", 3)
    assert found[3] == [("prose", 2)]
    assert "lines, by name" in segment("a.csv").err
    told = segment("a.jsonl", "--text-key", "txt", status=2).err
    assert "--text-key txt is not a field; there are: text, path, said" in told


def test_a_segmenter_of_ones_own_is_found(file, segment, facts, monkeypatch):
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "yours", None)
    del sys.modules["yours"]
    Path("yours.py").write_text(
        "import re\nfrom dataclasses import dataclass\nfrom segmenters import Segmenter\n\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Pauses(Segmenter):\n"
        "    signs: str = ','\n    lookahead = 1\n\n    def _ends(self, text):\n"
        "        return [m.end() for m in re.finditer(f'[{self.signs}] ', text)]\n\n\n"
        "class Half(Segmenter):\n    def _ends(self, text): return []\n\n\n"
        "def halves(text): return text.split('; ')\n"
    )
    Path("a.txt").write_text("One, two; three.")
    words = ("a.txt", "--segmenter", "yours.Pauses:signs=;")
    assert facts(*words)[0]["cuts"] == [0, 10, 16]
    del sys.modules["yours"]
    sys.path.remove(str(file.parent))
    called = facts("a.txt", "--segmenter", "segmenters.Called:function=yours:halves")
    assert called[0]["cuts"] == [0, 8, 10, 16]
    for name, rule in {
        "yours.Pauses:signs=,;": "KEY=VALUE",
        "yours.Pause": "yours.Pause",
        "yours.Half": "but this one lacks lookahead",
        "os.system": "os",
        "yours.Pauses:sings=1": "did you mean 'signs'",
    }.items():
        assert rule in segment("a.txt", "--segmenter", name, status=2).err
    with pytest.raises(ValueError, match=r"there is no 'yours\.Pauses'"):  # a stored configuration
        named_segmenter("yours.Pauses", option="generate.segmenter")
    Path("cfg").mkdir()
    Path("cfg", "elsewhere_fives.py").write_text(
        "from segmenters import Stride\n\n\nclass Fives(Stride):\n    pass\n"
    )
    words = ("a.txt", "--segmenter", "elsewhere_fives.Fives:length=5")
    assert "folder of --config-dir" in segment(*words, status=2).err
    assert facts(*words, "--config-dir", "cfg")[0]["cuts"][1] == 5


def test_lengths_are_in_characters_where_words_have_no_spaces(tmp_path, segment):
    (tmp_path / "a.txt").write_text("\u4f60\u597d\u3002\u518d\u89c1\u3002")
    assert "characters/segment" in segment(tmp_path, "--segmenter", "sentences").out
    (tmp_path / "b.txt").write_text("One word. Two.")
    out = segment(tmp_path, "--segmenter", "sentences").out
    assert "3.0 characters, 1.5 words" in out and "length/segment" in out


def test_deeper_levels_are_drawn():
    text = "# A\n\nOne. Two.\n\nThree.\n\n# B\n\nFour.\n"
    cut = CutText.by(Mixed(), text, name="a")
    bars = "".join(shown(cut))
    assert "\u2503# B" in bars and "\u2551Three." in bars and "\u2502Two." in bars
    painted = "".join(shown(cut, 256))
    assert re.search(r"\x1b\[[\d;]*;1m# B", painted) and not re.search(
        r"\x1b\[[\d;]*;1m# A", painted
    )
    assert '<section class="u r1">' in page([cut], title="a")


@pytest.mark.parametrize(("words", "named"), [((), ".f90"), (("--language", "fortran"), "fortran")])
def test_a_language_without_any_grammar_is_named(segment, tmp_path, words, named):
    (source := tmp_path / "m.f90").write_text("program m\nend program\n")
    told = segment(source, *words).err
    assert f"; 100% physical lines: no grammar of {named}; 2 segments" in told
    assert f"no grammar of {named}; there are: " in told and "--language" not in told


def test_rows_of_two_files_of_one_name_are_told_apart(tmp_path, facts):
    names = [str(tmp_path / folder / "a.jsonl") for folder in "xy"]
    for name in names:
        Path(name).parent.mkdir()
        Path(name).write_text('{"text": "One."}\n')
    assert [each["file"] for each in facts(*names)] == [f"{name}:1" for name in names]


def test_names_are_those_of_the_configuration():
    assert {path.stem for path in OPTIONS} == set(SEGMENTERS)


@pytest.mark.parametrize("path", OPTIONS, ids=lambda path: path.stem)
def test_the_fingerprint_of_each_option_builds_it_again(path):
    option = yaml.safe_load(path.read_text(encoding="utf-8"))
    made, text = build(option), "One. Two = 2.\nThree!\n"
    cuts = made.cut(text)
    assert cuts[0] == 0 and cuts[-1] == len(text)
    told = json.loads(json.dumps(made.fingerprint()))
    assert build({"_target_": told["segmenter"], **told["parameters"]}) == made
    if path.stem != "turns":  # the option also works during generation
        assert make(path.stem, **({"ends": made.ends} if path.stem == "pattern" else {})) == made
