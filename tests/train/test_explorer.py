"""`bipe explain --page`: the numbers that the page's own script computes are those of the model."""

import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
import torch

from bipe.positions import Positions
from segmenters import Auto, anchors_from_offsets, mark
from tests.train.studies import typed
from train.cli import main
from train.commands.explain.page import described
from train.commands.explain.parts import parts_of
from train.launch.composition import composed

# One of each way to turn, to add to scores or to change embeddings; together; and by layer.
NAMES = ("bipe_alibi", "bipe_rope", "cope", "deberta", "fire", "fox", "hirope", "kerple", "pope",
         "rope_partial", "shaw", "sinusoidal", "swan", "t5", "tupe", "xpos")  # fmt: skip
NODE = shutil.which("node") or shutil.which("nodejs")
needs_node = pytest.mark.skipif(NODE is None, reason="node runs the script of the page")
IDS = [0, 1, 7, 63, 500]


double = partial(torch.tensor, dtype=torch.float64)


def parts(*words):
    """The parts of a tiny model's encoding, and the width of its heads."""
    from train.commands.explain import _decoder, _scheme

    config = composed(typed("explain", "model=tiny", *words))
    decoder = _decoder(config)
    with torch.no_grad():
        return [*parts_of(_scheme(config, decoder), decoder.n_layer)], decoder.head_width


def asked(program, *values):
    """What the script of the page gives for an expression of `v`, the values."""
    code = Path(described.__code__.co_filename).with_name("page.js").read_text(encoding="utf-8")
    code += f"\nconst v = {json.dumps(values)}; console.log(JSON.stringify({program}));"
    done = subprocess.run([NODE, "-"], input=code, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_each_hook_is_drawn_or_named_as_not_drawn(name):
    for part in parts(f"encoding={name}")[0]:
        found = described(part, 8)
        drawn = {"rotation": "frequencies" in found, "bias": "slopes" in found or "table" in found}
        left = " ".join(found["notes"])
        words = {"rotation": "its rotation", "bias": "its bias", "embed": "changes embeddings"}
        for hook in part.hooks:
            assert drawn.get(hook, False) != (words[hook] in left), (hook, found)
        assert left or any(drawn.values())


@needs_node
@pytest.mark.parametrize(
    "words",
    [["encoding=rope_partial"], ["encoding=hirope"],
     ["encoding=bipe_rope", "stretch=yarn", "stretch.factor=4.0"]],
)  # fmt: skip
def test_angles_and_scores_are_those_of_the_rotation(words):
    found, width = parts(*words)
    ids = torch.tensor([IDS])
    turning = [(part, made) for part in found if "frequencies" in (made := described(part, width))]
    assert turning
    for part, made in turning:
        turn = part.of.rotation(ids)
        plane = getattr(turn, "inner", turn)
        angles = double(asked("v[1].map((id) => angles(v[0], id))", made, IDS))
        factor = torch.as_tensor(part.of.attention_factor)
        torch.testing.assert_close(angles.cos() * factor, plane.cos[0].double())
        torch.testing.assert_close(angles.sin() * factor, plane.sin[0].double())
        ones = torch.ones(1, 1, len(IDS), width, dtype=torch.float64)
        scores = (turn.query(ones)[0, 0, -1:] * turn.key(ones)[0, 0]).sum(-1) / width
        like = asked("v[1].map((k) => likeness(v[0], v[1].at(-1), k))", made, IDS)
        torch.testing.assert_close(double(like), scores)


@needs_node
@pytest.mark.parametrize("name", ["bipe_alibi", "kerple", "t5"])
def test_biases_are_those_of_the_encoding(name):
    found, width = parts(f"encoding={name}")
    part = next(part for part in found if "bias" in part.hooks)
    for parameter in part.of.parameters():  # those of a table start at 0
        torch.nn.init.uniform_(parameter, 0.5, 1.5)
    with torch.no_grad():
        bias = part.bias(512).dense(torch.float64)[0, :, 0]  # [head, key]
        made = described(part, width)
    keys = [511, 510, 500, 250, 0]
    ours = asked("v[1].map((k) => biases(v[0], 511, k))", made, keys)
    torch.testing.assert_close(double(ours), bias[:, keys].T)
    assert bias.any()


@needs_node
def test_ids_of_a_text_are_those_of_our_segmenters(tmp_path):
    text = "Dr. \U0001d4d0 slept. \u00bfWho? \u4f60\u597d\u3002\u518d\u89c1\u3002\n\nIt rained.\n"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    words = ["encoding=bipe_rope", "model=tiny", "--page", str(tmp_path / "a.html")]
    assert main(["explain", *words, "--file", str(tmp_path / "a.txt")]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'id="data">(.*?)</script>', page)
    example = json.loads(data)["examples"][0]
    assert example["text"] == text and example["by"] == "Sentences (prose)"
    tokens = asked("tokenize(v[0])", text)
    assert "".join(token["text"] for token in tokens) == text.rstrip()
    place, offsets = 0, []
    for token in tokens:
        offsets.append((place, place + len(token["text"])))
        place = offsets[-1][1]
    cuts = Auto().choose(text=text, name="a.txt").cut(text)
    marks = mark(anchors_from_offsets(text, offsets), [cuts])
    at = Positions.from_marks(torch.from_numpy(marks)[None], packed=False)
    ids = asked("count(opened(tokenize(v[0].text), v[0].starts))", example)
    for name in ("token", "inter", "intra"):
        assert [each[name] for each in ids] == at.ids(name)[0].tolist()
    assert ids[-1]["inter"] == 4


@needs_node
def test_the_small_functions_of_the_page_do_what_it_says():
    cut = "startsBy(v[0], v[1])"
    assert asked(cut, "sentences", 'Dr. Bo "sat." It fell.\n\nEnd') == [0, 4, 14, 24]
    assert asked(cut, "lines", "a\nb\nc") == [0, 2, 4] and asked(cut, "hand", "A. B") == [0]
    assert asked("opened(tokenize(v[0]), [0, 2, 3])", "a  b c") == [True, True, False]
    assert asked("biases({table: [[1, 2]]}, 5, 0)") == [None]  # beyond the table
    # The selected token, 50 tall, is scrolled into the list of 300 and no further.
    places = [(0, 900), (650, 900), (700, 40), (0, 0), (30, 100)]
    found = asked("v.map(([now, top]) => scrolled(now, top, 50, 300))", *places)
    assert found == [650, 650, 40, 0, 30]


def test_the_page_stands_alone_and_text_cannot_end_its_script(tmp_path, capsys):
    (tmp_path / "a.md").write_text("</script><script>alert(1)</script>. Yes.", encoding="utf-8")
    words = ["explain", "encoding=bipe_alibi", "model=tiny", "--file", str(tmp_path / "a.md")]
    assert main([*words, "--page", str(tmp_path / "a.html")]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and "{{" not in page
    assert not re.findall(r"(?:src|href)=|https?://|@import", page)
    assert f"page: {tmp_path / 'a.html'}" in capsys.readouterr().out
    assert main(words) == 2 and "--file" in capsys.readouterr().err
    assert main([*words[:3], "--page", "x.txt"]) == 2
    (tmp_path / "a.md").write_bytes(b"caf\0")
    assert main([*words, "--page", str(tmp_path / "b.html")]) == 2
    assert "a.md" in capsys.readouterr().err and not (tmp_path / "b.html").exists()
