"""One flipped, missing or added byte anywhere in a model folder is found, and the file named."""

import random
import time

import pytest

from bipe.checkpoint import CheckpointError, load_model, read_config, seal_model
from bipe.sealing import sealed
from tests.trust.conftest import rewritten

WEIGHTS, CONFIG = "model.safetensors", "config.json"
SAMPLE = 40  # places in the header, and in the weights


def refused(folder, name):
    """Load a folder with a fault: whether the error names the file."""
    try:
        load_model(folder)
    except CheckpointError as error:
        return str(folder / name) in str(error)
    return False


def missed(folder, name, places):
    """Flip a bit or replace a byte at places of a file: those that no error is told for."""
    path, whole, draw = folder / name, (folder / name).read_bytes(), random.Random(0)
    found = []
    for place in places(whole, draw):
        bad = bytearray(whole)
        bad[place] ^= draw.choice([1 << draw.randrange(8), draw.randrange(1, 256)])
        path.write_bytes(bytes(bad))
        if not refused(folder, name):
            found.append(place)
    path.write_bytes(whole)
    return found


def test_a_changed_byte_of_the_configuration_or_the_weights_is_found(model):
    def places(whole, draw):
        header = 8 + int.from_bytes(whole[:8], "little")
        found = [*range(8), *draw.sample(range(8, header), SAMPLE), header, len(whole) - 1]
        return found + draw.sample(range(header, len(whole)), SAMPLE)

    assert missed(model, CONFIG, lambda whole, draw: range(len(whole))) == []
    assert missed(model, WEIGHTS, places) == []


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_file_that_is_shorter_longer_empty_or_gone_is_named(model, name):
    path, whole = model / name, (model / name).read_bytes()
    draw = random.Random(0)
    parts = [whole[: draw.randrange(len(whole))] for _ in range(8)] + [whole[:-1], b""]
    places = [draw.randrange(len(whole)) for _ in range(8)]
    parts += [whole[:place] + whole[place + 1 :] for place in places]  # one byte is missing
    parts += [whole[:place] + b"\0" + whole[place:] for place in places]
    for part in [*parts, whole + b"\n", whole + b" ", b"\xef\xbb\xbf" + whole]:
        path.write_bytes(part)
        assert refused(model, name)
    path.unlink()
    assert refused(model, name)
    path.mkdir()
    assert refused(model, name)


@pytest.mark.parametrize("name", ["a.safetensors", "model-00002.safetensors", "x.json", "x.py"])
def test_a_file_that_is_not_listed_or_has_another_name_is_named(model, name):
    (model / name).write_bytes(b"x")
    assert refused(model, name)
    (model / WEIGHTS).replace(model / name)
    assert refused(model, WEIGHTS)


def test_what_says_what_a_model_is_may_lie_beside_it(model):
    for name in ("README.md", "LICENSE", ".gitattributes"):
        (model / name).write_text("x")
    _, notes = load_model(model)
    assert notes == read_config(model)["notes"]


def test_the_format_before_is_refused_with_the_line_that_seals_it(model):
    with rewritten(model) as held:
        held["format"] = "bipe-decoder/1"
        del held["files"]
    with pytest.raises(CheckpointError, match="has no sha256") as error:
        load_model(model)
    assert f"seal_model as seal; seal('{model}')" in str(error.value)
    seal_model(model)
    load_model(model)
    with pytest.raises(CheckpointError, match="format must be 'bipe-decoder/1'"):
        seal_model(model)


def test_a_configuration_that_asks_for_a_trillion_parameters_costs_no_time(model):
    with rewritten(model) as held:
        held["decoder"] |= {"width": 6 * 10**5, "vocab_size": 10**6}
    began = time.perf_counter()
    assert refused(model, WEIGHTS)
    assert time.perf_counter() - began < 60


def test_a_damaged_checkpoint_is_told_before_it_is_used(trained, bipe, tmp_path):
    (path,) = trained.glob("checkpoints/step=00000002.ckpt")
    whole = path.read_bytes()
    words = ("generate", f"{trained}@2", "generate.prompt='1 + 1'", "generate.max_new=2")
    try:
        assert bipe(*words)[0] == 0
        draw = random.Random(0)
        for _ in range(2):
            bad = bytearray(whole)
            bad[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
            path.write_bytes(bytes(bad))
            status, told = bipe(*words)
            assert status == 2 and str(path) in told and "checksum" in told
    finally:
        path.write_bytes(whole)


def test_an_empty_object_is_no_model(tmp_path):
    (tmp_path / CONFIG).write_text(sealed({"format": "bipe-decoder/2"}))
    assert refused(tmp_path, CONFIG)
