"""The plan of a sweep: which models are measured, and that a factor of 1 stretches nothing."""

import dataclasses

import pytest
import torch

from bipe import Decoder
from tests.bipe.conftest import random_batch, small_decoder, stretch
from train.evals.sweep import is_stretched, plan

NOTES = {
    "row_length": 16,
    "positions": {"segment": {"counted": 1, "maximum": 6, "p99": 4, "p99.9": 5}},
}
METHODS = {
    "none": None,
    "linear": stretch("Linear", factor=16.0),
    "ntk_aware": stretch("NTKAware", factor=16.0),
    "dynamic_ntk": stretch("DynamicNTK", factor=2.0),
    "yarn": stretch("YaRN", factor=16.0),
}
LENGTHS = [16, 32, 64]


def planned(scheme, **options):
    config = small_decoder(scheme).config
    options = {
        "notes": NOTES,
        "methods": METHODS,
        "units": ["tokens", "segments"],
        "factor": None,
        "lengths": LENGTHS,
        "row_length": 16,
    } | options
    return config, plan(config, **options)


def rope_of(config):
    encoding = config.encoding
    return encoding.get("inter", encoding.get("encoding", encoding))


def test_every_method_is_planned_with_both_units_where_segments_drive_the_rotation():
    _, found = planned("bilevel_learned_rope")
    assert [(line.method, line.unit) for line in found.lines] == [
        ("none", None),
        ("linear", None),  # no original length: both units are one model
        ("ntk_aware", None),
        ("dynamic_ntk", "tokens"),
        ("dynamic_ntk", "segments"),
        ("yarn", "tokens"),
        ("yarn", "segments"),
    ]
    assert found.left_out == {}


def test_a_flat_encoding_counts_tokens():
    _, found = planned("flat_rope")
    assert [line.method for line in found.lines] == list(METHODS)
    assert {line.unit for line in found.lines} == {None, "tokens"}


def test_the_factor_is_that_of_the_length_and_the_unit_the_original_length():
    _, found = planned("bilevel_learned_rope")
    lines = {(line.method, line.unit): line.cells for line in found.lines}
    for unit, original in (("tokens", 16), ("segments", 6)):
        for cell, factor in zip(lines["yarn", unit], (1.0, 2.0, 4.0), strict=True):
            assert cell.factor == factor
            if factor > 1:
                made = rope_of(cell.config)["stretch"]
                assert (made["factor"], made["original_length"]) == (factor, original)
        # It measures the length itself.
        assert rope_of(lines["dynamic_ntk", unit][2].config)["stretch"]["factor"] == 2.0


def test_a_factor_can_be_fixed():
    _, found = planned("flat_rope", factor=8.0)
    (yarn,) = (line for line in found.lines if line.method == "yarn")
    assert [cell.factor for cell in yarn.cells] == [1.0, 8.0, 8.0]


@pytest.mark.parametrize("scheme", ["flat_rope", "bilevel_learned_rope"])
@torch.no_grad()
def test_at_a_factor_of_1_every_method_is_the_model_bit_for_bit(scheme):
    """As planned, and as each strategy does with that factor."""
    model = small_decoder(scheme).eval()
    config, found = planned(scheme)
    assert {line.cells[0].model for line in found.lines} == {found.lines[0].cells[0].model}
    tokens, at = random_batch(2, 48, seed=0)
    expected = model(tokens, at)
    for line in found.lines:
        stretched = rope_of(line.cells[-1].config).get("stretch")
        if stretched is None:
            continue
        encoding = dataclasses.replace(line.cells[-1].config).encoding
        rope_of(line.cells[-1].config)["stretch"] = stretched | {"factor": 1.0}
        same = Decoder(dataclasses.replace(config, encoding=encoding)).eval()
        same.load_state_dict(model.state_dict())
        assert torch.equal(same(tokens, at), expected), line.method


def test_what_cannot_be_stretched_takes_part_as_it_is_and_says_why():
    _, found = planned("flat_alibi")
    assert [line.method for line in found.lines] == ["none"]
    assert set(found.left_out) == {f"{name}, tokens" for name in METHODS if name != "none"}
    assert all("cannot be stretched" in reason for reason in found.left_out.values())


def test_a_model_that_was_stretched_takes_part_as_it_is():
    config, found = planned("flat_rope")
    longer = found.lines[-1].cells[-1].config
    assert is_stretched(longer.encoding) and not is_stretched(config.encoding)
    again = plan(
        longer, notes=NOTES, methods=METHODS, units=["tokens"], factor=None, lengths=LENGTHS,
        row_length=16,
    )  # fmt: skip
    assert [line.method for line in again.lines] == ["none"]
    assert set(again.left_out.values()) == {"the model is stretched already"}


def test_equal_models_are_told_by_their_configuration():
    _, one = planned("flat_rope")
    _, two = planned("flat_rope")
    cells = [[cell.model for line in found.lines for cell in line.cells] for found in (one, two)]
    assert cells[0] == cells[1]
    assert len(set(cells[0])) == 1 + 2 * 3 + 1  # dynamic NTK has one model for both lengths
