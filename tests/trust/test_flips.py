"""One flipped, missing or added byte anywhere in a model folder is found, and the file named."""

import json
import random
import re
import time

import pytest

from bipe.build import ALLOWED
from bipe.checkpoint import CheckpointError, load_model, read_config, save_model
from bipe.sealing import seal_model, sealed
from tests.bipe.conftest import small_decoder
from tests.trust.conftest import rewritten
from train.errors import UserError
from train.fit.checkpoints.reading import find_base_run
from train.fit.handover import read_files

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


def test_a_card_that_was_changed_is_named_and_can_be_sealed_anew(tmp_path):
    folder = tmp_path / "model"
    save_model(small_decoder("flat_rope"), folder, beside={"README.md": "A card.", "LICENSE": "x"})
    for name in ("README.md", "LICENSE"):
        (folder / name).write_text("B card." if name == "README.md" else "y")
        with pytest.raises(CheckpointError, match=r"has changed since it was written") as error:
            load_model(folder)
        assert str(folder / name) in str(error.value)
        typed = re.search(r'python -c "(.*)"', str(error.value))
        exec(typed[1], {})
        load_model(folder)


def output_of(place):
    """All that decides what a model of a run says: weights, notes and the files beside them."""
    run = find_base_run(place, key="RUN", allowed=ALLOWED)
    notes = {key: value for key, value in run.notes.items() if key != "tokens"}  # of metrics.csv
    weights = {name: value.tolist() for name, value in run.model.state_dict().items()}
    return weights, notes, read_files(run.folder), run.sha256


def test_a_flip_in_any_file_of_a_run_is_named_or_changes_nothing(trained):
    draw, named = random.Random(3), set()
    for place in (str(trained), f"{trained}@2"):
        expected = output_of(place)
        for path in sorted(path for path in trained.rglob("*") if path.is_file()):
            whole = path.read_bytes()
            for at in [draw.randrange(len(whole)) for _ in range(3)] if whole else []:
                bad = bytearray(whole)
                bad[at] ^= 1 << draw.randrange(7)
                path.write_bytes(bytes(bad))
                try:
                    assert output_of(place) == expected, (path, at)
                except (UserError, CheckpointError) as error:
                    assert str(trained) in str(error)
                    if str(path) in str(error):
                        named.add(path.relative_to(trained).as_posix())
                finally:
                    path.write_bytes(whole)
    shared = [f"{each}/{name}" for each in ("model", "checkpoints/model") for name in FILES]
    assert {*shared, "model/README.md"} <= named


FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "segmenter.json")


def test_a_checkpoint_whose_description_has_no_seal_is_refused_and_sealed_as_told(trained):
    path = trained / "checkpoints" / "model" / "config.json"
    whole = path.read_text()
    held = {key: json.loads(whole)[key] for key in ("decoder", "parameters", "notes")}
    try:
        path.write_text(json.dumps(held))
        with pytest.raises(UserError, match="has no sha256") as error:
            output_of(f"{trained}@2")
        exec(re.search(r'python -c "(.*)"', str(error.value))[1], {})
        made, before = json.loads(path.read_text()), json.loads(whole)
        assert {**made, "seal": ""} == {**before, "seal": ""}
    finally:
        path.write_text(whole)


def test_the_format_before_is_refused_with_the_line_that_seals_it(model):
    with rewritten(model) as held:
        held["format"] = "bipe-decoder/1"
        del held["files"]
    with pytest.raises(CheckpointError, match="has no sha256") as error:
        load_model(model)
    assert f"seal_model as seal; seal('{model}')" in str(error.value)
    seal_model(model)
    load_model(model)


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
