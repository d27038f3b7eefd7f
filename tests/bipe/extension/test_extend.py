"""What a stretched configuration is, where its length comes from, and what is told of it.

Retrofits: a model of flat RoPE goes on from where it is, and learns segments.
"""

import dataclasses
import math
import re
from pathlib import Path

import pytest
import torch

from bipe import Cache, Decoder, extension
from bipe.checkpoint import load_model, save_model
from bipe.encodings.base import Flat, annealed, of_layer
from bipe.encodings.far import Far
from bipe.encodings.rope import Stretch
from bipe.extension import extend_config
from bipe.layouts.folders import read_folder, write_folder
from tests.bipe.conftest import (
    BARE,
    SCHEMES,
    bilevel,
    far,
    flat,
    layers,
    random_batch,
    random_marks,
    rope,
    small_decoder,
    stretch,
)

SEEN = {"counted": 10**6, "maximum": 147, "p99": 90, "p99.9": 119}
NOTES = {"row_length": 1024, "positions": {"token": dict(SEEN), "segment": SEEN}}
YARN = stretch("YaRN", factor=16.0)


def stretched(config):
    encoding = config.encoding
    return encoding.get("inter", encoding.get("encoding", encoding))["stretch"]


def test_the_length_is_of_segments_under_bipe_and_of_tokens_elsewhere():
    flat, bipe = small_decoder("flat_rope"), small_decoder("bilevel_learned_rope")
    for model, unit, expected in (
        (bipe, None, 120),
        (bipe, "segments", 120),
        (bipe, "tokens", 1024),
        (bipe, 75, 75),
        (flat, None, 1024),
        (flat, "tokens", 1024),
        (flat, 200, 200),
    ):
        before = dataclasses.asdict(model.config)
        done = extend_config(model.config, YARN, notes=NOTES, unit=unit)
        assert dataclasses.asdict(model.config) == before
        assert stretched(done.config)["original_length"] == expected
        assert done.reports[0].original.length == expected
    given = extend_config(bipe.config, {**YARN, "original_length": 33}, notes=NOTES)
    assert stretched(given.config)["original_length"] == 33


def test_pairs_that_turn_no_more_are_told_as_such():
    done = extend_config(small_decoder("flat_rope").config, far("DroPE"), notes={})
    pairs = len(done.reports[0].stopped)
    assert pairs and not done.reports[0].interpolated
    assert f"  stopped            {pairs} of {pairs} rotary pairs: 0-{pairs - 1}" in done.report


def test_what_the_page_shows_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[3] / "docs" / "stretch.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    save_model(small_decoder("bilevel_learned_rope"), "runs/mine/bipe_rope/model", notes=NOTES)
    exec(compile(code, str(page), "exec", dont_inherit=True), {})
    assert "120 segments (p99.9" in capsys.readouterr().out
    model, notes = load_model("runs/mine/longer")
    assert model.scheme.inter.stretch.original_length == 120
    assert notes["stretch"][0]["strategy"] == stretched(model.config)
    named = set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE))
    assert named == {
        name
        for name in vars(extension)
        if isinstance(getattr(extension, name), type)
        and issubclass(getattr(extension, name), Stretch | Far)
    }


def test_the_report_says_which_pairs_are_kept():
    bipe = small_decoder("bilevel_learned_rope").config
    wide = bilevel({**BARE["learned"], "width": 384}, {**BARE["rope"], "head_width": 64})
    config = dataclasses.replace(bipe, width=384, head_width=64, encoding=wide)
    reports = {
        unit: extend_config(config, YARN, notes=NOTES, unit=unit).reports[0]
        for unit in ("segments", "tokens")
    }
    for report in reports.values():
        pairs = report.kept + report.blended + report.interpolated
        assert pairs == tuple(range(32)), "fast pairs are kept, then blended, then interpolated"
        assert report.attention_factor == pytest.approx(0.1 * math.log(16) + 1)
    # Tokens leave pairs alone that segments say never turned.
    assert len(reports["segments"].interpolated) > len(reports["tokens"].interpolated)
    text = str(reports["segments"])
    count = len(reports["segments"].interpolated)
    assert text.splitlines() == [
        "YaRN(factor=16.0)",
        "  original length    120 segments (p99.9 of the indices in training, the largest was 147)",
        "  attention factor   1.27726",
        "  kept               1 of 32 rotary pairs: 0",
        f"  blended            {31 - count} of 32 rotary pairs: 1-{31 - count}",
        f"  interpolated       {count} of 32 rotary pairs: {32 - count}-31",
    ]


def test_a_dynamic_strategy_is_told_for_its_whole_length():
    config = small_decoder("bilevel_learned_rope").config
    (report,) = extend_config(config, stretch("DynamicNTK", factor=4.0), notes=NOTES).reports
    assert report.length == 480
    assert report.kept == (0,) and report.interpolated == (2, 3)
    (report,) = extend_config(
        config, {**stretch("DynamicYaRN"), "factor": None}, notes=NOTES
    ).reports
    assert report.length == 120 and report.kept == (0, 1, 2, 3)


def test_a_bare_encoding_in_layers_gets_a_scheme_that_holds_the_method():
    done = extend_config(small_decoder("rnope").config, far("ReRoPE", window=8), notes=NOTES)
    assert of_layer(Decoder(done.config).scheme, 0).far == extension.ReRoPE(window=8)


def test_a_rotation_inside_segments_is_left_alone():
    config = small_decoder("bilevel_rope_rope").config
    done = extend_config(config, YARN, notes=NOTES)
    assert "stretch" in done.config.encoding["inter"]
    assert done.config.encoding["intra"] == SCHEMES["bilevel_rope_rope"]["intra"]
    done = extend_config(small_decoder("chain").config, YARN, notes=NOTES)
    assert "stretch" in done.config.encoding["links"][1]["inter"]


SHORT = {"row_length": 40, "positions": {"token": {"p99.9": 39}, "segment": {"p99.9": 7}}}
LLAMA3 = far("Llama3", factor=4.0, original_length=16)
BASES = {
    "bare": BARE["rope"],
    "partial, interleaved": rope(part=[0.0, 0.5], interleaved=True),
    "stretched": rope(theta=500.0, stretch=LLAMA3),
}


def retrofitted(base: Decoder, strategy, *, notes=SHORT) -> Decoder:
    """The base model under a way; what it lacks is zero, as at the first step."""
    model = Decoder(extend_config(base.config, strategy, notes=notes).config)
    known = base.state_dict()
    state = {name: known.get(name, torch.zeros_like(v)) for name, v in model.state_dict().items()}
    model.load_state_dict(state)
    for part in annealed(model.scheme):
        part.anneal(0.0)
    return model


def bases():
    for name, described in BASES.items():
        yield name, small_decoder("flat_nope", encoding=flat(described))
    yield "grouped, tied", small_decoder("flat_rope", n_kv_head=2, tied_head=True)


@pytest.fixture
def llama(tmp_path):
    """A model that comes from a folder of transformers."""
    base = small_decoder("flat_nope", encoding=rope(theta=500.0), n_kv_head=2)
    write_folder(base, tmp_path / "llama")
    model, config = read_folder(tmp_path / "llama")
    assert config["model_type"] == "llama"
    return model


def every_way_of_reading(model: Decoder):
    """Logits of packed rows and whole ones, without a cache and with one, in chunks and single."""
    yield model.logits(*random_batch(2, 40, seed=3))
    tokens, at = random_batch(2, 40, seed=4, documents=0.0)
    yield model.logits(tokens, dataclasses.replace(at, packed=False))
    for documents in (0.0, 0.1):
        marks, cache = random_marks(2, 40, seed=5, documents=documents), Cache(batch=2, grows=True)
        for part in (slice(20), slice(20, 39), slice(39, 40)):
            yield model.logits(tokens[:, part], cache.next(marks[:, part]), cache=cache)


@pytest.mark.parametrize(("name", "flat_layers"), [("Gated", 0), ("Homotopy", 1)])
@torch.no_grad()
def test_the_first_step_is_the_base_model_bit_for_bit(name, flat_layers, llama):
    for what, base in (*bases(), ("llama", llama)):
        model = retrofitted(base, far(name, flat_layers=flat_layers))
        pairs = zip(every_way_of_reading(base), every_way_of_reading(model), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs), what


@pytest.mark.parametrize("name", ["Gated", "Homotopy"])
def test_what_is_new_is_zero_and_learns(name):
    model = retrofitted(small_decoder("flat_rope"), far(name))
    before = model.logits(*random_batch(2, 40, seed=3))
    before.logsumexp(-1).sum().backward()
    new = [name for name, p in model.named_parameters() if not p.any()]
    assert new == ["scheme.gate"] * (name == "Gated") + ["scheme.intra.table.weight"]
    for name in new:
        assert model.get_parameter(name).grad.abs().sum() > 0


@torch.no_grad()
def test_gates_of_one_and_the_end_of_a_homotopy_are_segments():
    base = small_decoder("flat_rope")
    segments = retrofitted(base, far("Swap"))
    gated, homotopy = (retrofitted(base, far(name, step=1.0)) for name in ("Gated", "Homotopy"))
    for model in (segments, gated, homotopy):
        model.scheme.intra.table.weight.copy_(torch.linspace(-1, 1, 48))
    gated.scheme.gate.fill_(1.0)
    homotopy.scheme.anneal(1.0)
    batch = random_batch(2, 40, seed=3)
    assert torch.equal(gated.logits(*batch), segments.logits(*batch))
    assert torch.equal(homotopy.logits(*batch), segments.logits(*batch))
    assert not torch.equal(base.logits(*batch), segments.logits(*batch))


@torch.no_grad()
def test_a_homotopy_goes_over_by_steps_and_counts_tokens_per_segment():
    model = retrofitted(small_decoder("flat_rope"), far("Homotopy", over=0.5))
    scheme = model.scheme
    assert scheme.step == 5.0  # 40 tokens, 8 segments
    _, at = random_batch(1, 40, seed=3, documents=0.0)
    for done, share in ((0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (1.0, 1.0)):
        scheme.anneal(done)
        places = (1 - share) * at.token + share * 5.0 * at.inter
        expected = scheme.inter.rotation(places.double())
        torch.testing.assert_close(scheme.rotation(at).cos, expected.cos)


def test_the_first_layers_stay_flat():
    base = small_decoder("flat_rope", n_layer=4)
    model = retrofitted(base, far("Swap", flat_layers=3))
    kinds = [isinstance(of_layer(model.scheme, layer), Flat) for layer in range(4)]
    assert kinds == [True, True, True, False]


@torch.no_grad()
def test_a_split_is_the_base_model_within_its_window():
    base = small_decoder("flat_rope").double()
    done = extend_config(base.config, far("Split"), notes=SHORT)
    assert done.config.encoding["window"] == done.reports[0].original.length == 40
    model = retrofitted(base, far("Split", window=12)).double()
    tokens, at = random_batch(2, 40, seed=3, documents=0.0)
    near, whole = (each.logits(tokens, at) for each in (model, base))
    torch.testing.assert_close(near[:, :12], whole[:, :12])
    assert not torch.allclose(near[:, 12:], whole[:, 12:])


ROPE, LACKS = BARE["rope"], {"positions": {"segment": {"maximum": -1, "p99.9": -1}}}
FLAT = "unit must be tokens or a number, .* was: segments"
BIPE, BIPE_ALIBI = (bilevel(BARE["learned"], BARE[name]) for name in ("rope", "alibi"))
DYNAMIC = rope(stretch=far("DynamicYaRN", original_length=9))
REFUSED = [
    (ROPE, stretch("LongRoPE"), NOTES, None, "needs short_factor, long_factor; set stretch"),
    (ROPE, YARN, NOTES, "segments", FLAT),
    (ROPE, YARN, {}, None, "no row_length"),
    (ROPE, YARN, {}, 0, "unit must be at least 1 position, was: 0"),
    (BIPE, YARN, {"row_length": 9}, None, "no positions.segment.p99.9"),
    (BARE["rope_yarn"], YARN, NOTES, None, "already has a stretch, bipe.extension.YaRN"),
    (
        flat(BARE["alibi"]),
        YARN,
        NOTES,
        None,
        r"Flat\(ALiBi\) cannot be stretched: it has no rotation",
    ),
    (BIPE_ALIBI, YARN, NOTES, None, r"Bilevel\(Learned, ALiBi\) cannot be stretched"),
    (BIPE, YARN, LACKS, None, "no token"),
    (BIPE, {**YARN, "original_length": 0}, NOTES, None, "original_length must be at least 1"),
    (BIPE, YARN, NOTES, "words", "unit must be segments, tokens or a number, was: 'words'"),
    (BIPE, YARN, NOTES, True, "unit must be segments"),
    # Retrofits.
    (BARE["alibi"], far("Gated"), NOTES, None, r"needs flat RoPE, was: ALiBi"),
    (BIPE, far("Swap"), NOTES, None, r"Swap needs flat RoPE, was: Bilevel\(Learned, RoPE\)"),
    (layers(a=ROPE, b=BARE["nope"]), far("Gated"), NOTES, None, r"was: Layers\(RoPE, NoPE\)"),
    (ROPE, far("Gated"), {}, None, "set stretch.step, the tokens per segment"),
    (ROPE, far("Split"), {}, None, "have no row_length"),
    (BARE["rope_yarn"], far("Split"), NOTES, None, "without stretch: use gated or swap"),
    (ROPE, far("Swap", flat_layers=2), NOTES, None, r"below n_layer \(2\), was: 2"),
    (ROPE, far("Swap", flat_layers=-1), NOTES, None, "flat_layers must be at least 0"),
    (ROPE, far("Gated", step=-1.0), NOTES, None, "step must be at least 0, was: -1.0"),
    (ROPE, far("Homotopy", over=0.0), NOTES, None, "over must be above 0 and at most 1"),
    (DYNAMIC, far("Gated"), NOTES, None, "must not have a dynamic stretch, was: DynamicYaRN"),
]


@pytest.mark.parametrize(("encoding", "strategy", "notes", "unit", "told"), REFUSED)
@pytest.mark.usefixtures("unchecked_types")
def test_what_cannot_be_meant_is_refused(encoding, strategy, notes, unit, told):
    config = dataclasses.replace(small_decoder("flat_nope").config, encoding=encoding)
    with pytest.raises(ValueError, match=told):
        extend_config(config, strategy, notes=notes, unit=unit)
