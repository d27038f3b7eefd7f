"""Variants of a model: which there are, and that none stretches what is short enough."""

from tests.bipe.conftest import small_decoder, stretch
from train.evals.variants import Ways, is_stretched, variants

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
    ways = Ways(methods=METHODS, units=units, factor=factor)
    found = variants(config, ways, notes=NOTES, lengths=LENGTHS, row_length=16)
    return {one.name: one for one in found}


def rope_of(config):
    encoding = config.encoding
    return encoding.get("inter", encoding.get("encoding", encoding))


def test_every_method_has_both_units_where_segments_drive_the_rotation():
    config = small_decoder("bilevel_learned_rope").config
    found = made(config)
    assert all(one.configs[16] == config for one in found.values())
    assert list(found) == [
        "none",
        "linear",  # no original length: both units are one model
        "ntk_aware",
        "dynamic_ntk (tokens)", "dynamic_ntk (segments)", "yarn (tokens)", "yarn (segments)",
    ]  # fmt: skip
    assert not any(one.left_out for one in found.values())
    for unit, original in (("tokens", 16), ("segments", 6)):
        for length, factor in ((32, 2.0), (64, 4.0)):
            stretched = rope_of(found[f"yarn ({unit})"].configs[length])["stretch"]
            assert (stretched["factor"], stretched["original_length"]) == (factor, original)
        # It measures the length itself.
        dynamic = found[f"dynamic_ntk ({unit})"].configs[64]
        assert rope_of(dynamic)["stretch"]["factor"] == 2.0


def test_a_flat_encoding_counts_tokens_and_a_factor_can_be_fixed():
    config = small_decoder("flat_rope").config
    found = made(config, factor=8.0)
    assert list(found) == [name if name == "none" else f"{name} (tokens)" for name in METHODS]
    yarn = found["yarn (tokens)"].configs
    assert yarn[16] == config
    assert [rope_of(yarn[length])["stretch"]["factor"] for length in (32, 64)] == [8.0, 8.0]


def test_what_cannot_be_stretched_is_left_out_with_the_reason():
    found = made(small_decoder("flat_alibi").config)
    assert not found.pop("none").left_out
    assert set(found) == {f"{name} (tokens)" for name in METHODS if name != "none"}
    assert all("cannot be stretched" in one.left_out for one in found.values())


def test_a_model_that_was_stretched_is_measured_as_it_is():
    config = small_decoder("flat_rope").config
    longer = made(config)["yarn (tokens)"].configs[64]
    assert is_stretched(longer.encoding) and not is_stretched(config.encoding)
    again = made(longer, units=["tokens"])
    assert again.pop("none").configs == dict.fromkeys(LENGTHS, longer)
    assert {one.left_out for one in again.values()} == {"the model already has a stretch"}
