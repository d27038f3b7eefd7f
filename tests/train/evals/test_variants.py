"""Variants of a model: which there are, and that none stretches what is short enough."""

from dataclasses import asdict
from types import SimpleNamespace

from tests.bipe.conftest import small_decoder, stretch
from train.evals.loop import Subject
from train.evals.variants import variants

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


def made(config, *, factor=None, units=("tokens", "segments")):
    run = SimpleNamespace(model=asdict(config), notes=NOTES)
    subject = Subject(run=run, row_length=16, lengths=LENGTHS, held_out=None)
    found = variants(subject, METHODS, units=units, factor=factor)
    return {one.variant: (one, misfit) for one, misfit in found}


def rope_of(config):
    encoding = config.encoding
    return encoding.get("inter", encoding.get("encoding", encoding))


def test_every_method_has_both_units_where_segments_drive_the_rotation():
    config = small_decoder("bilevel_learned_rope").config
    found = made(config)
    assert all(one.config_at(16) == config for one, _ in found.values())
    assert list(found) == [
        "none",
        "linear",  # no original length: both units are one model
        "ntk_aware",
        "dynamic_ntk (tokens)", "dynamic_ntk (segments)", "yarn (tokens)", "yarn (segments)",
    ]  # fmt: skip
    assert not any(misfit for _, misfit in found.values())
    for unit, original in (("tokens", 16), ("segments", 6)):
        for length, factor in ((32, 2.0), (64, 4.0)):
            stretched = rope_of(found[f"yarn ({unit})"][0].config_at(length))["stretch"]
            assert (stretched["factor"], stretched["original_length"]) == (factor, original)
        # It measures the length itself.
        dynamic = found[f"dynamic_ntk ({unit})"][0].config_at(64)
        assert rope_of(dynamic)["stretch"]["factor"] == 2.0


def test_a_flat_encoding_counts_tokens_and_a_factor_can_be_fixed():
    config = small_decoder("flat_rope").config
    found = made(config, factor=8.0)
    assert list(found) == [name if name == "none" else f"{name} (tokens)" for name in METHODS]
    yarn = found["yarn (tokens)"][0]
    assert yarn.config_at(16) == config
    factors = {rope_of(yarn.config_at(length))["stretch"]["factor"] for length in (32, 64)}
    assert factors == {8.0}
