"""What spaCy and its models find, and what is said where they are not installed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from segmenters import Sentences
from segmenters.prose import sentences
from tests.segmenters.texts import pieces

spacy = pytest.importorskip("spacy")
ROOT = Path(__file__).parents[2]
RULES = Sentences(backend="rules")


@pytest.fixture
def fresh():
    """What is missing is looked up once a process: forget it, before and after."""
    for cached in (sentences._missing, sentences._warn_once):
        cached.cache_clear()
    yield
    for cached in (sentences._missing, sentences._warn_once):
        cached.cache_clear()


def installed(folder, name, version, entry_points=""):
    """Make a distribution of `folder`, as pip would, and return the folder."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    return folder


def test_spacy_finds_the_component_by_its_name_alone(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in rows.items())
        for group, rows in project["entry-points"].items()
    )
    folder = installed(tmp_path / "site", project["name"], project["version"], points)
    # Without what spaCy imports for models and downloads, which take most of the time.
    program = f"""
import sys
sys.modules |= {{"torch": None, "chardet": None}}
sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("bipe_sentences", config={{"next_word": True}})
print([s.text for s in nlp("I live in the U.S. How about Mr. Brown? No.").sents])
german = spacy.blank("de")
german.add_pipe("bipe_sentences", config={{"language": "de"}})
for each in (nlp, german):
    print(len([*each("Er kam ev. Otto sah es.").sents]))
nlp.to_disk({str(tmp_path / "model")!r})
print([s.text for s in spacy.load({str(tmp_path / "model")!r})("Dr. Who came. So.").sents])
tokens = {{"@tokenizers": "bipe_sentence_tokens", "next_word": False}}
nlp = spacy.blank("xx", config={{"nlp": {{"tokenizer": tokens}}}})
print([t.text for t in nlp("One. Two.")])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "['I live in the U.S.', 'How about Mr. Brown?', 'No.']",
        *("1", "2"),  # "ev." is an abbreviation, but not in German
        "['Dr. Who came.', 'So.']",
        "['One. ', 'Two.']",
    ]


def test_a_model_that_is_installed_serves_by_its_name(tmp_path, monkeypatch):
    nlp = spacy.blank("en", meta={"name": "tiny_model", "version": "0.4.2"})
    nlp.add_pipe("sentencizer")
    folder = installed(tmp_path, "en_tiny_model", "0.4.2")
    package = folder / "en_tiny_model"
    package.mkdir()
    nlp.to_disk(package / "en_tiny_model-0.4.2")
    (package / "meta.json").write_bytes((package / "en_tiny_model-0.4.2/meta.json").read_bytes())
    (package / "__init__.py").write_text(
        "from spacy.util import load_model_from_init_py\n"
        "def load(**overrides):\n    return load_model_from_init_py(__file__, **overrides)\n"
    )
    monkeypatch.syspath_prepend(folder)
    segmenter = Sentences(backend="en_tiny_model")
    assert pieces("One. Two.", segmenter) == ["One. ", "Two."]
    assert segmenter.fingerprint()["versions"]["model"] == "en_tiny_model-0.4.2"


def test_the_sentencizer_cuts_in_front_of_visible_characters():
    segmenter = Sentences(backend="sentencizer", language="en")
    text = "  One.\n Two!  Three\n\nFour"
    assert pieces(text, segmenter) == ["  One.\n ", "Two!  ", "Three\n\n", "Four"]
    assert segmenter.lookahead is None and RULES.lookahead == 1
    assert segmenter.fingerprint()["versions"] == {"spacy": spacy.__version__}


def test_a_model_on_disk_is_read_for_what_finds_sentences(tmp_path):
    nlp, path = spacy.blank("en"), str(tmp_path / "model")
    nlp.to_disk(path)
    with pytest.raises(ValueError, match="must have a pipe parser or senter or sentencizer"):
        Sentences(backend=path).cut("One.")
    nlp.add_pipe("senter")
    nlp.initialize()
    nlp.disable_pipe("senter")
    nlp.to_disk(path)
    cuts = Sentences(backend=path).cut("One two. Three.\n\nFour")
    assert {0, 17, 21} <= set(cuts.tolist())


@pytest.mark.parametrize(
    ("backend", "language", "said"),
    [
        ("senter", "fr", r"'fr_core_news_sm' is installed: pip install https://.*\.whl, or set"),
        ("parser", "en", r"'en_core_web_sm' is installed: pip install .*/en_core_web_sm-3"),
        ("senter", "xx", r"'xx_sent_ud_sm' is installed: pip install"),
        ("de_core_news_lg", "xx", r"'de_core_news_lg' is installed: pip install"),
        ("sentencizr", "xx", r"'sentencizr' is installed: backend is rules, spacy, sentencizer"),
    ],
)
def test_a_missing_model_is_named_in_one_line_with_its_cure(backend, language, said):
    with pytest.raises(ValueError, match=said) as caught:
        Sentences(backend=backend, language=language).cut("Oui.")
    assert "\n" not in str(caught.value)
    assert "fallback=true" in str(caught.value)
    with pytest.raises(ValueError, match=r"language must be one that spaCy can load .* was: 'zz'"):
        Sentences(backend="sentencizer", language="zz").cut("One.")


def test_the_rules_stand_in_for_a_missing_model_if_they_may(fresh, caplog):
    segmenter = Sentences(backend="senter", language="fr", fallback=True)
    text = "Oui, M. Blanc. Non."
    for _ in range(2):
        assert segmenter.cut(text).tolist() == RULES.cut(text).tolist()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "fr_core_news_sm" in caplog.text and "the rules are used instead" in caplog.text
    assert segmenter.fingerprint()["versions"] == RULES.fingerprint()["versions"]
    assert segmenter.lookahead is None


@pytest.mark.parametrize(
    ("backend", "library"),
    [("spacy", "spacy"), ("sentencizer", "spacy"), ("senter", "spacy"), ("thai", "pythainlp")],
)
def test_a_library_may_be_missing(backend, library, fresh, monkeypatch, caplog):
    def without(name):
        raise ModuleNotFoundError(f"No module named '{library}'")

    monkeypatch.setattr(sentences, "import_module", without)
    text = "Mr. One. Two.\n\u0e01 \u0e02"
    with pytest.raises(ValueError, match=f"is not installed .*: pip install {library}, or set"):
        Sentences(backend=backend).cut(text)
    allowed = Sentences(backend=backend, fallback=True)
    assert pieces(text, allowed) == pieces(text, RULES)
    assert f"pip install {library}" in caplog.text
