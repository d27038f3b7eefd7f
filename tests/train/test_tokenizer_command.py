"""`bipe tokenizer train`: files that load, the same every time, and none that is overwritten."""

import json

import pytest

from train.cli import main
from train.data.tokenizing.vocabulary import END, LoadTokenizer, TrainBPE


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Run the command on a small folder of text; status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    for number in range(20):
        text = f"The cat number {number * 12345} sat. It slept;\n\nnobody noticed {number}.\n" * 4
        (tmp_path / "text" / f"{number}.txt").write_text(text)

    def run(*words, action=("train",)):
        keys = ["corpus=text", "corpus.tokenizer.vocab_size=320", "out=made"]
        status = main(["tokenizer", *action, *keys, *words])
        return status, *capsys.readouterr()

    return run


def test_what_is_trained_loads_and_is_told(train, tmp_path):
    status, out, _ = train("corpus.tokenizer.special_tokens=['<a>','<b>']", "corpus.split.test=0.4")
    assert status == 0
    assert out.startswith("made/tokenizer.json: ")
    assert "bytes per token on" in out and "held-out text" in out
    tokenizer = LoadTokenizer(path=tmp_path / "made").build()
    assert tokenizer.decode([tokenizer.eos_id]) == END
    assert tokenizer.fast.token_to_id("<b>") == 2
    config = json.loads((tmp_path / "made" / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["eos_token"] == END
    made = {path.name for path in (tmp_path / "made").iterdir()}
    assert made == {"tokenizer.json", "tokenizer_config.json"}


def test_training_again_gives_the_same_bytes_and_overwrites_only_when_asked(train, tmp_path):
    assert train()[0] == 0
    before = (tmp_path / "made" / "tokenizer.json").read_bytes()
    status, out, err = train()
    assert (status, out) == (2, "")
    assert "already exists" in err and "if_exists=overwrite" in err
    assert train("if_exists=overwrite")[0] == 0
    assert (tmp_path / "made" / "tokenizer.json").read_bytes() == before
    assert train("out=other/mine.json")[0] == 0
    assert (tmp_path / "other" / "mine.json").read_bytes() == before


def test_a_training_killed_between_its_files_is_begun_again(train, tmp_path):
    assert train()[0] == 0
    file, beside = (tmp_path / "made" / f"tokenizer{end}.json" for end in ("", "_config"))
    before = file.read_bytes()
    file.unlink()  # it is written last
    assert train()[0] == 0 and file.read_bytes() == before
    file.unlink()
    beside.write_text("{}")  # somebody's own
    status, _, err = train()
    assert status == 2 and str(beside.relative_to(tmp_path)) in err and not file.exists()
    assert beside.read_text() == "{}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tokenizer"], "bipe: tokenizer: say what to do: bipe tokenizer train"),
        (["tokenizer", "trian"], "bipe: tokenizer: say what to do: bipe tokenizer train"),
        (["tokenizer@corpus.tokenizer=load", "~corpus.tokenizer.vocab_size"], "one to train, was"),
        (["corpus.tokenizer.split=o200k"], "must be one of gpt2, cl100k, was: 'o200k'"),
        (["corpus.tokenizer.vocab_size=256"], "vocab_size must be above 256"),
        (["corpus.tokenizer.vocab_size=999999999"], "and at most 10000000, was: 999999999"),
        (["corpus.tokenizer.special_tokens=[a,a]"], "special_tokens must not be empty, and differ"),
        (["out=tokenizer_config.json"], "choose another name"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(train, tmp_path, words, told):
    before = sorted(tmp_path.rglob("*"))
    action = words[1:] if words[0] == "tokenizer" else ["train"]
    status, out, err = train(*([] if words[0] == "tokenizer" else words), action=action)
    assert (status, out) == (2, "")
    assert told in err and "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("split", ["gpt2", "cl100k"])
@pytest.mark.parametrize(("digits", "pieces"), [("single", ["1"] * 4), ("groups", ["111", "1"])])
def test_digits_are_single_or_in_groups(split, digits, pieces):
    corpus = ["111 1111 11 (a) xx\n"] * 50
    made = TrainBPE(vocab_size=300, split=split, digits=digits).build(lambda _: corpus)
    ((ids, _),) = made.encode_batch(["1111"])
    assert [made.decode([id]) for id in ids] == pieces
    assert made.places.search("a\nb c").start() == (1 if split == "gpt2" else 2)
