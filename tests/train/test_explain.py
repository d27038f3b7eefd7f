"""`bipe explain encoding=...`: every encoding, as its own code and docstrings have it."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import conf
from bipe import DecoderConfig
from bipe.encodings import ALiBi, Bilevel, NoPE, RoPE
from train.cli import main
from train.commands.explain.curves import curves
from train.commands.explain.laws import laws
from train.commands.explain.parts import parts_of

NAMES = sorted(path.stem for path in (Path(conf.__path__[0]) / "encoding").glob("*.yaml"))
SMALL = ("model=tiny", "row_length=64", "--lengths", "16,1024")


@pytest.fixture
def explain(tmp_path, monkeypatch, capsys):
    """What the command says, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words, status=0):
        assert main(["explain", *SMALL, *words]) == status
        said = capsys.readouterr()
        assert not (said.out if status else said.err)
        return said.err if status else said.out

    return run


OWN = """
from bipe.encodings import RoPE


class Turned(RoPE):
    \"\"\"Turns as RoPE does.\"\"\"
"""


def test_a_module_is_found_beside_its_yaml(explain, tmp_path, monkeypatch):
    (tmp_path / "own" / "encoding").mkdir(parents=True)
    (tmp_path / "own" / "beside_yaml.py").write_text(OWN)
    yaml = tmp_path / "own" / "encoding" / "turned.yaml"
    yaml.write_text("_target_: beside_yaml.Turned\nhead_width: 8\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ("encoding=turned", "--config-dir=own")
    assert "add allowed_targets=[beside_yaml]" in explain(*words, status=2)
    assert str(tmp_path / "own") not in sys.path
    said = explain(*words, "allowed_targets=[beside_yaml]")
    assert said.startswith("Turned, for") and "Turns as RoPE does" in said


WRONG = """
import torch
from bipe.bias import RowBias, TableBias
from bipe.encodings import Encoding


class Smoothed(Encoding):
    def embed(self, x, ids):
        return x + x.cumsum(1)


class Ahead(Encoding):
    def embed(self, x, ids):
        return x + x.flip(1)


class Even(Encoding):
    def bias(self, q_ids, k_ids):
        def table(q, k):
            return (k % 2 + 0.0 * q)[:, None]

        return TableBias(function=table, q_ids=q_ids, k_ids=k_ids)


class Headless(Encoding):
    def bias(self, q_ids, k_ids):
        return TableBias(function=lambda q, k: k - 1.0 * q, q_ids=q_ids, k_ids=k_ids)
"""


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("Smoothed", {"packed": "BROKEN", "cached": "BROKEN"}),
        ("Ahead", {"causal": "BROKEN", "packed": "BROKEN", "cached": "BROKEN"}),
        ("Even", {"relative": "BROKEN"}),
        ("Headless", dict.fromkeys(("forward",), "FAILS")),
    ],
)
@pytest.mark.parametrize("bilevel", [False, True])
def test_a_law_that_an_encoding_breaks_is_named(name, broken, bilevel, tmp_path, monkeypatch):
    (tmp_path / "wrong_laws.py").write_text(WRONG)
    monkeypatch.syspath_prepend(tmp_path)
    encoding = {"_target_": f"wrong_laws.{name}"}
    if bilevel:
        rope = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
        encoding = {"_target_": "bipe.encodings.Bilevel", "intra": rope, "inter": encoding}
    sizes = {"vocab_size": 9, "width": 32, "n_layer": 2, "n_head": 4, "mlp_width": 8}
    said = laws(DecoderConfig(**sizes, encoding=encoding), allowed=("bipe.", "wrong_laws."))
    found = [line.split(": ")[:2] for line in said]
    assert {law: what.split()[0] for law, what in found if what != "holds"} == broken


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_is_explained_without_data(name, explain, tmp_path):
    said = explain(f"encoding={name}")
    assert all(f"  {law}: holds: " in said for law in ("causal", "packed", "cached"))
    assert "BROKEN" not in said and "FAILS" not in said
    assert said.isascii() and "None" not in said.replace("=None", "")
    assert re.search(r"\d{4}\.\d{4,5}", said)  # a source
    assert "hook " in said and "parameters: " in said
    assert re.search(r"^attention, cpu", said, re.MULTILINE)
    assert re.search(r"^  (token|inter|level0)\*", said, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


CHAIN = ["encoding=nope", "encoding._target_=bipe.encodings.Chain", "+encoding.links=["
         + ", ".join(["{_target_: bipe.encodings.Flat, encoding: "
                      "{_target_: bipe.encodings.ALiBi, n_head: 4}}"] * 2) + "]"]  # fmt: skip
LINEAR = ["+encoding.stretch._target_=bipe.extension.Linear", "+encoding.stretch.factor=4.0"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["encoding=bilevel", "encoding@encoding.inter=kerple"],
         ["Chi et al., 2205.09921, eq. 4 and 5", r"log      score - p ln\(1 \+ a d\)",
          r"inter: Kerple, uses inter ids \(segments\)", r"parameters: 8 \(p 4, a 4\)",
          r"intra: Learned, uses intra ids \(tokens of the segment\)"]),
        (["encoding=bipe_alibi"],
         [r"sentences \| Dr\. Bo counts twice\. \| One .* \| The other",
          r"token  +\| +0 +1 +2 +3 \| +4 +5", r"inter\* +\| +0 +0 +0 +0 \| +1 +1",
          r"intra\* +\| +0 +1 +2 +3 \| +0 +1"]),
        (["encoding=swan", "model.n_layer=4"],
         ["layers 0, 1, 2", "layers 3", r"far of schemes\.windows: Window\(.*window=512",
          r"in passes at 1,024 ids \(Window: 1 part"]),
        (["encoding=rope", *LINEAR], [r"stretch of encoding: Linear\(.*factor=4\.0"]),
        (["encoding=bipe_rope", "stretch=yarn", "stretch.factor=4.0"],
         [r"^BiPE-RoPE \+ YaRN,", r"stretch of inter: YaRN\(.*original_length=64"]),
        (["encoding=shaw"],
         [r"read: eager at 16 tokens \(few scores", "read: chunked at 1,024 tokens"]),
        (["encoding=shaw", "attention=chunked"], [r"chunked at 16, 1,024 tokens \(as configured"]),
        (CHAIN, [r"links\.0\.encoding: ALiBi", r"links\.1\.encoding: ALiBi",
                 "together, Chain: bias, in segments of 16 tokens"]),
    ],
)  # fmt: skip
def test_what_is_told_of_parts_ids_and_paths(words, told, explain):
    said = explain(*words)
    assert [each for each in told if not re.search(each, said)] == []
    if words == ["encoding=bipe_alibi"]:
        assert "together" not in said


def test_what_is_computed_costs(explain):
    def beyond(name):
        return float(re.search(r"([-\d.]+) kFLOP", explain(f"encoding={name}"))[1])

    assert beyond("alibi") == beyond("rope") == 0
    assert beyond("pope") > 0 and beyond("transformer_xl") > beyond("shaw") > 0


def test_curves_are_the_bias():
    sizes = DecoderConfig(vocab_size=8, width=32, n_layer=1, n_head=4, mlp_width=8)
    alibi = ALiBi(n_head=4)
    parts = parts_of(Bilevel(intra=NoPE(), inter=alibi), n_layer=1)
    (curve,) = curves(parts, sizes, 512)
    assert curve.part.path == "inter" and curve.unit == "distance in segments" and not curve.drawn
    for row, slope in zip(curve.heads.values(), alibi.slopes.tolist(), strict=True):
        assert row == tuple(-slope * at for at in range(64))
    before = torch.random.get_rng_state()
    (turned,) = curves(parts_of(Bilevel(intra=NoPE(), inter=RoPE(head_width=8)), n_layer=1), sizes,
                       512)  # fmt: skip
    assert torch.equal(torch.random.get_rng_state(), before)
    assert list(turned.heads) == ["every head"] and turned.drawn
    assert turned.heads["every head"][0] == max(turned.heads["every head"])


def test_pictures_are_files_that_are_the_same_each_time(explain, tmp_path):
    for name in ("one", "two"):
        explain("encoding=bipe_alibi", "--svg", f"{name}.svg", "--pdf", f"{name}.pdf")
    for kind in ("svg", "pdf"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
    drawn = "".join(ElementTree.parse(tmp_path / "one.svg").getroot().itertext())
    assert "BiPE-ALiBi" in drawn and "inter, ALiBi: bias" in drawn and "twice." in drawn
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("encoding=kerpel",), "did you mean 'kerple'?"),
        (("encoding=rope", "model.head_width=7"), "head_width must be even, was: 7"),
        (("encoding=alibi", "stretch=yarn"), "stretch: "),
        (("encoding=rope", "attention=banded"), "'banded' needs a linear bias"),
        (("encoding=rope", "--svg", "x.png"), "--svg must name a file that ends in .svg"),
        (("encoding=rope", "--svg", "no/x.svg"), "there is no folder no"),
        (("encoding=rope", "--lengths", "0"), "must be numbers from 1 up, was: 0"),
        (("encoding=rope", "--colour"), "there is no option --colour"),
        (("encoding=rope", "--config-dir", "no"), "--config-dir must name a folder, was: no"),
        (("encoding=rope", "--file", "x"), "--file x: needs --page FILE"),
    ],
)
def test_what_cannot_be_explained_is_refused(words, told, explain, tmp_path):
    said = explain(*words, status=2)
    assert told in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
