"""What `bipe segment` reads and by what: rows, own segmenters, tokens, scripts without spaces."""

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
import yaml

from bipe.build import build
from segmenters import Mixed
from segmenters.registry import SEGMENTERS, make
from segmenters.show import CutText, counted, page, shown
from train.cli import main
from train.data.rows.source_segmenter import built

OPTIONS = sorted((Path(__file__).parents[2] / "conf" / "segmenter").glob("*.yaml"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Dr. Brown came. He left!\n\nOne\n", encoding="utf-8")
    return path


def test_rows_are_documents_with_their_fields(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"text": "x = (1,\n 2)\n", "path": "a.py", "said": "One. Two."},
        {"text": "One. Two.", "said": "One. Two. Three."},
    ]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("a.csv").write_text('text,said\n"One. ""Two"".",No\n')
    pq.write_table(pa.Table.from_pylist(rows), "a.parquet")
    found = {}
    for words in ("a.jsonl", "a.parquet", "a.jsonl --text-key said", "a.csv --text-key text"):
        assert main(["segment", *words.split(), "--json"]) == 0
        made = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        found[words] = [(each["segmenter"], each["segments"]) for each in made]
    assert found["a.jsonl"] == found["a.parquet"] == [("code (python)", 1), ("prose", 2)]
    assert found["a.jsonl --text-key said"][1] == ("prose", 3)
    assert found["a.csv --text-key text"] == [("prose", 2)]
    assert main(["segment", "a.csv"]) == 0 and "csv, by name" in capsys.readouterr().err
    assert main(["segment", "a.jsonl", "--text-key", "txt"]) == 2
    told = capsys.readouterr().err
    assert "--text-key txt is not a field; there are: text, path, said" in told


def test_a_segmenter_of_ones_own_is_found_in_the_working_directory(file, monkeypatch, capsys):
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "yours", None)
    del sys.modules["yours"]
    Path("yours.py").write_text(
        "import re\nfrom dataclasses import dataclass\nfrom segmenters import Segmenter\n\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Pauses(Segmenter):\n"
        "    signs: str = ','\n    lookahead = 1\n\n    def _ends(self, text):\n"
        "        return [m.end() for m in re.finditer(f'[{self.signs}] ', text)]\n\n\n"
        "class Half(Segmenter):\n    def _ends(self, text): return []\n\n\nclass No: pass\n"
    )
    Path("a.txt").write_text("One, two; three.")
    assert main(["segment", "a.txt", "--segmenter", "yours.Pauses:signs=,;"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err
    assert main(["segment", "a.txt", "--segmenter", "yours.Pauses:signs=;", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cuts"] == [0, 10, 16]
    for name, rule in {
        "yours.Pause": "yours.Pause",
        "yours.No": "Segmenter",
        "yours.Half": "but this one lacks lookahead",
        "nowhere.Pauses": "nowhere",
        "os.system": "os",
        "yours.Pauses:sings=1": "did you mean 'signs'",
    }.items():
        assert main(["segment", "a.txt", "--segmenter", name]) == 2
        assert rule in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"there is no 'yours\.Pauses'"):  # a stored configuration
        built("yours.Pauses", option="generate.segmenter")


def test_lengths_are_in_characters_where_words_have_no_spaces(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\u4f60\u597d\u3002\u518d\u89c1\u3002")
    assert main(["segment", str(tmp_path), "--segmenter", "sentences"]) == 0
    assert "characters/segment" in capsys.readouterr().out
    (tmp_path / "b.txt").write_text("One word. Two.")
    assert main(["segment", str(tmp_path), "--segmenter", "sentences"]) == 0
    out = capsys.readouterr().out
    assert "3.0 characters, 1.5 words" in out and "length/segment" in out


def test_a_bound_in_tokens_needs_a_tokenizer(file, tmp_path, capsys):
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast.save(str(tmp_path / "tokenizer.json"))
    words = ["segment", str(file), "--longest", "2 tokens"]
    assert main(words) == 2
    assert "--longest 2 tokens: needs --tokenizer PATH" in capsys.readouterr().err
    assert main([*words, "--tokenizer", str(tmp_path), "--json"]) == 0
    assert max(json.loads(capsys.readouterr().out)["tokens_of_segments"]) == 2


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


def test_a_noun_is_in_the_number_of_what_it_counts():
    said = [counted(n, name) for n, name in ((1, "part"), (0, "row"), (2, "class"), (3, "entry"))]
    assert said == ["1 part", "0 rows", "2 classes", "3 entries"]
    assert counted(1_000, "yaml file") == "1,000 yaml files"


@pytest.mark.parametrize(("words", "named"), [((), ".f90"), (("--language", "fortran"), "fortran")])
def test_a_language_without_any_grammar_is_named(capsys, tmp_path, words, named):
    (file := tmp_path / "m.f90").write_text("program m\nend program\n")
    assert main(["segment", str(file), *words]) == 0
    told = capsys.readouterr().err
    assert f"; 100% physical lines: no grammar of {named}; 2 segments" in told
    assert f"no grammar of {named}; there are: " in told and "--language" not in told


def test_a_class_of_ones_own_may_be_in_another_folder(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "cfg").mkdir()
    own = "from segmenters import Stride\n\n\nclass Fives(Stride):\n    pass\n"
    (tmp_path / "cfg" / "elsewhere_fives.py").write_text(own)
    words = ["segment", str(file), "--json", "--segmenter", "elsewhere_fives.Fives:length=5"]
    assert main(words) == 2 and "folder of --config-dir" in capsys.readouterr().err
    assert main([*words, "--config-dir", str(tmp_path / "cfg")]) == 0
    assert json.loads(capsys.readouterr().out)["cuts"][1] == 5


def test_a_folder_without_files_is_told(tmp_path, capsys):
    (tmp_path / "empty" / "in").mkdir(parents=True)
    (tmp_path / "empty" / ".hidden").touch()
    (tmp_path / "a.txt").write_text("One.")
    assert main(["segment", str(tmp_path / "empty"), str(tmp_path / "a.txt")]) == 2
    told = capsys.readouterr()
    assert "One." in told.out and "empty: a folder without files" in told.err


def test_rows_of_two_files_of_one_name_are_told_apart(tmp_path, capsys):
    names = [str(tmp_path / folder / "a.jsonl") for folder in "xy"]
    for name in names:
        Path(name).parent.mkdir()
        Path(name).write_text('{"text": "One."}\n')
    assert main(["segment", *names, "--json"]) == 0
    found = [json.loads(line)["file"] for line in capsys.readouterr().out.splitlines()]
    assert found == [f"{name}:1" for name in names]


def test_names_are_those_of_the_configuration():
    assert {path.stem for path in OPTIONS} == set(SEGMENTERS)


@pytest.mark.parametrize("path", OPTIONS, ids=lambda path: path.stem)
def test_the_fingerprint_of_each_option_builds_it_again(path):
    option = yaml.safe_load(path.read_text(encoding="utf-8"))
    made = build(option)
    told = json.loads(json.dumps(made.fingerprint()))
    assert build({"_target_": told["segmenter"], **told["parameters"]}) == made
    if path.stem != "turns":  # the option also works during generation
        assert make(path.stem, **({"ends": made.ends} if path.stem == "pattern" else {})) == made
