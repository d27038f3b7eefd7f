"""What a stretched configuration is, where its length comes from, and what is told of it."""

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
import torch

from bipe import Decoder, extension
from bipe.checkpoint import load_model, save_model
from bipe.encodings.far import Far
from bipe.encodings.rope import Stretch
from bipe.extension import extend_config
from tests.bipe.conftest import BARE, SCHEMES, random_batch, small_decoder, stretch, target

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
        done = extend_config(model.config, YARN, notes=NOTES, unit=unit)
        assert stretched(done.config)["original_length"] == expected
        assert done.reports[0].original.length == expected
    given = extend_config(bipe.config, {**YARN, "original_length": 33}, notes=NOTES)
    assert stretched(given.config)["original_length"] == 33


def test_pairs_that_turn_no_more_are_told_as_such():
    done = extend_config(
        small_decoder("flat_rope").config, {"_target_": "bipe.extension.DroPE"}, notes={}
    )
    pairs = len(done.reports[0].stopped)
    assert pairs and not done.reports[0].interpolated
    assert f"  stopped            {pairs} of {pairs} rotary pairs: 0-{pairs - 1}" in done.report


@pytest.mark.parametrize("scheme", ["flat_rope", "bilevel_learned_rope", "chain"])
@torch.no_grad()
def test_a_checkpoint_of_a_stretched_model_knows_what_was_done(scheme, tmp_path):
    model = small_decoder(scheme)
    before = dataclasses.asdict(model.config)
    done = extend_config(model.config, YARN, notes=NOTES)
    assert dataclasses.asdict(model.config) == before
    longer = Decoder(done.config)
    longer.load_state_dict(model.state_dict())
    notes = {"stretch": [report.as_notes() for report in done.reports]}
    save_model(longer, tmp_path / "longer", notes=notes)
    loaded, noted = load_model(tmp_path / "longer")
    assert loaded.config == done.config
    assert noted == json.loads(json.dumps(notes))
    tokens, at = random_batch(2, 40, seed=1)
    assert torch.equal(loaded(tokens, at), longer(tokens, at))
    assert not torch.allclose(loaded(tokens, at), model(tokens, at))


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
    rope = {**BARE["rope"], "head_width": 64}
    learned = {**BARE["learned"], "width": 384}
    wide = dataclasses.replace(bipe, width=384, head_width=64)
    config = dataclasses.replace(wide, encoding=target("Bilevel", intra=learned, inter=rope))
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


def test_a_rotation_inside_segments_is_left_alone():
    config = small_decoder("bilevel_rope_rope").config
    done = extend_config(config, YARN, notes=NOTES)
    assert "stretch" in done.config.encoding["inter"]
    assert done.config.encoding["intra"] == SCHEMES["bilevel_rope_rope"]["intra"]


REFUSED = [
    ("rope", stretch("LongRoPE"), NOTES, None, "also needs short_factor, long_factor; set stretch"),
    ("rope", YARN, NOTES, "segments", "unit must be tokens or a number, .* was: segments"),
    ("rope", YARN, {}, None, "no row_length"),
    ("rope", YARN, {}, 0, "unit must be at least 1 position, was: 0"),
    ("bipe_rope", YARN, {"row_length": 9}, None, "no positions.segment.p99.9"),
    ("rope_yarn", YARN, NOTES, None, "already has a stretch, bipe.extension.YaRN"),
    ("alibi", YARN, NOTES, None, r"Flat\(ALiBi\) cannot be stretched: it has no rotation"),
    ("bipe_alibi", YARN, NOTES, None, r"Bilevel\(Learned, ALiBi\) cannot be stretched"),
    ("bipe_rope", YARN, {"positions": {"segment": {"maximum": -1, "p99.9": -1}}}, None, "no token"),
    ("bipe_rope", YARN, NOTES, "words", "unit must be segments, tokens or a number, was: 'words'"),
    ("bipe_rope", YARN, NOTES, True, "unit must be segments"),
]


@pytest.mark.parametrize(("name", "strategy", "notes", "unit", "told"), REFUSED)
@pytest.mark.usefixtures("unchecked_types")
def test_what_cannot_be_meant_is_refused(name, strategy, notes, unit, told):
    name = name if name.startswith("bipe") else f"flat_{name}"
    with pytest.raises(ValueError, match=told):
        extend_config(small_decoder(name).config, strategy, notes=notes, unit=unit)
