"""What does not fit gets a clear error or the right answer, and never a number that is none."""

import inspect
import re
from types import SimpleNamespace

import jaxtyping
import numpy as np
import pytest
import torch

from bipe import Carry, Decoder, DecoderConfig, Positions
from bipe.arguments import explained
from bipe.cache import Cache
from bipe.encodings import Bilevel, Encoding, Flat, NoPE, RoPE
from bipe.encodings.base import require_hook
from bipe.generation import Beams, Sampling, Session, beam_search, generate
from bipe.loss import IGNORE, summed_cross_entropy
from segmenters import (
    ByteTable,
    Online,
    Sentences,
    TokenMarker,
    anchors_from_offsets,
    mark,
    official_marks,
    segment_ids,
)
from tests.bipe.conftest import (
    ONE_EACH,
    positions_of,
    random_batch,
    random_marks,
    small_decoder,
    target,
)


def test_shapes_are_checked_in_these_tests():
    for _ in range(2):  # the first two calls of a function in a test, see conftest.py
        with pytest.raises(jaxtyping.TypeCheckError):
            Carry.from_columns(torch.zeros(3))


@pytest.mark.parametrize("packed", [False, True], ids=["one", "packed"])
@pytest.mark.parametrize("scheme", ONE_EACH)
def test_models_read_one_token_and_rows_of_padding(scheme, packed):
    model = small_decoder(scheme)
    tokens, at = random_batch(3, 1 if not packed else 9, seed=2)
    if packed:
        padding = torch.zeros(3, 9, dtype=torch.bool)
        padding[1], padding[2, 4:] = True, True
        at = positions_of(random_marks(3, 9, seed=2), padding=padding)
    hidden = model(tokens, at)
    targets = torch.where(at.document >= 0, tokens, IGNORE)
    loss = summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, targets.flatten())
    loss.backward()
    assert torch.isfinite(hidden).all() and torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    "scheme", ["flat_learned", "bilevel_learned_rope", "bilevel_learned_alibi"]
)
def test_rows_longer_than_a_table_take_its_last_row(scheme):
    model = small_decoder(scheme).double()  # a table of 24
    tokens, _ = random_batch(1, 60, seed=3)
    at = Positions.from_marks(torch.zeros(1, 60, dtype=torch.uint8), packed=False)
    full = model.logits(tokens, at)
    assert torch.isfinite(full).all()
    cache = Cache(batch=1, capacity=60)
    with torch.no_grad():
        parts = [
            model.logits(
                tokens[:, i : i + 20], cache.next(at.token[:, :20].byte() * 0), cache=cache
            )
            for i in (0, 20, 40)
        ]
    torch.testing.assert_close(torch.cat(parts, 1), full, atol=1e-9, rtol=1e-9)


def test_rows_longer_than_a_strict_table_are_refused():
    table = target("Learned", width=48, length=8, overflow="error")
    config = DecoderConfig(
        vocab_size=61, width=48, n_layer=1, n_head=6, mlp_width=16, encoding=table
    )
    model = Decoder(config)
    with pytest.raises(ValueError, match=r"a position of 11 is beyond the learned table"):
        model(
            torch.zeros(1, 12, dtype=torch.int64), Positions.from_marks(torch.zeros(1, 12).byte())
        )
    with pytest.raises(ValueError, match="beyond the learned table: length is 8"):
        generate(model, [[1, 2, 3]], max_new=12)


def test_positions_go_on_from_large_numbers():
    model = small_decoder("bilevel_learned_rope").double()
    tokens, _ = random_batch(1, 9, seed=4)
    far = {name: torch.tensor([1 << 31]) for name in ("token", "inter", "intra")}
    carry = Carry(document=torch.tensor([0]), **far)
    at = Positions.from_marks(random_marks(1, 9, seed=4, documents=0.0), carry=carry)
    assert torch.isfinite(model.logits(tokens, at)).all()


@pytest.mark.parametrize("id", [61, 1000, -1])
def test_ids_outside_the_vocabulary_are_refused(id):
    model = small_decoder("flat_rope")
    with pytest.raises(ValueError, match=f"ids must be from 0 to 60, was: {id}"):
        Session(model, batch=1).feed([[1, id]])
    at = Positions.from_marks(torch.zeros(1, 2, dtype=torch.uint8))
    with pytest.raises(IndexError, match="out of range"):
        model(torch.tensor([[1, id]]), at)


def test_a_model_with_segments_needs_a_way_to_find_them():
    model = small_decoder("bipe_rope")
    for write in (
        lambda **how: generate(model, [[1, 2]], max_new=2, **how),
        lambda **how: beam_search(model, [1, 2], max_new=2, search=Beams(beams=2), **how),
    ):
        with pytest.raises(ValueError, match="the model counts segments: pass marker="):
            write()
    assert generate(model, [[1, 2]], max_new=2, marks=[[3, 0]])


@pytest.mark.usefixtures("unchecked_types")
def test_prompts_may_be_a_tensor():
    model, prompts = small_decoder("flat_rope"), torch.tensor([[1, 2], [3, 4]])
    (first, second), given = generate(model, prompts, max_new=3), prompts.tolist()
    assert [first, second] == generate(model, given, max_new=3)
    with pytest.raises(ValueError, match="each prompt must have at least one token"):
        generate(model, prompts[:, :0], max_new=3)


def test_positions_of_other_tokens_are_refused():
    model, tokens = small_decoder("bipe_rope"), torch.ones(1, 5, dtype=torch.long)
    for time in (1, 4, 6):
        at = Positions.from_marks(torch.ones(1, time, dtype=torch.uint8))
        with pytest.raises(ValueError, match=f"of the 5 tokens of a row, were of {time}"):
            model.logits(tokens, at)
    with pytest.raises(ValueError, match=r"tensor uint8 \[batch, time\], were: Tensor .* \[5\]"):
        inspect.unwrap(Positions.from_marks.__func__)(Positions, torch.ones(5, dtype=torch.uint8))


def test_a_description_for_another_model_is_refused():
    sizes = {"vocab_size": 61, "width": 48, "n_layer": 1, "n_head": 6, "mlp_width": 64}
    for inner, told in (
        (target("RoPE", head_width=16), "inter.head_width must be that of the model, 8, was: 16"),
        (target("ALiBi", n_head=1), "inter.n_head must be that of the model, 6, was: 1"),
        (target("Sinusoidal", width=1), "inter.width must be that of the model, 48, was: 1"),
        (target("KERPLE", n_head=6), "did you mean 'bipe.encodings.kerple.Kerple'"),
        (target("Rope", head_width=8), "did you mean 'bipe.encodings.rope.RoPE'"),
    ):
        scheme = target("Bilevel", intra=target("NoPE"), inter=inner)
        with pytest.raises(ValueError, match=rf"encoding\.inter.*{re.escape(told[5:])}"):
            Decoder(DecoderConfig(**sizes, encoding=scheme))


def test_an_encoding_whose_hook_is_misspelt_is_refused():
    class Misspelt(Encoding):
        def __init__(self):
            super().__init__()
            self.slopes = torch.nn.Parameter(torch.zeros(6))

        def bais(self, q_ids, k_ids):
            return None

    with pytest.raises(ValueError, match=r"Misspelt has parameters .*'bais' is none: did you mean"):
        require_hook(Misspelt())


@pytest.mark.usefixtures("unchecked_types")
def test_what_is_not_marks_is_refused():
    marks = torch.zeros(1, 3, dtype=torch.uint8)
    for wrong in (torch.tensor([[3, 0, 2]]), marks[0], marks.numpy()):
        with pytest.raises(ValueError, match=r"marks must be a tensor uint8 \[batch, time\]"):
            Positions.from_marks(wrong)
    at = Positions.from_marks(torch.zeros(1, 3, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"Positions\.carry\(\)"):
        Positions.from_marks(torch.zeros(1, 3, dtype=torch.uint8), carry=at)
    for level, levels in ((-1, 1), (0, 0), (7, 1), (5, 3)):
        with pytest.raises(ValueError, match=f"within the 7 levels of marks, were: {level}"):
            Positions.from_marks(marks, level=level, levels=levels)
    anchors = np.arange(5)
    with pytest.raises(ValueError, match=r"\[cuts\]"):
        mark(anchors, np.array([0, 3]))
    with pytest.raises(ValueError, match="pieces must be a list of the bytes of each id"):
        TokenMarker(segmenter=Sentences(), pieces=["a", "b"])


@pytest.mark.usefixtures("unchecked_types")
def test_arguments_of_another_kind_are_named():
    model, flat = small_decoder("bipe_rope"), small_decoder("flat_rope")
    at = Positions.from_marks(torch.zeros(1, 2, dtype=torch.uint8))
    tokens, late = torch.ones(1, 2, dtype=torch.long), torch.arange(2)
    by_flex = Decoder(flat.config, attention="flex")
    for told, call in {
        "prompts must be a list of lists": lambda: generate(flat, [1, 2], max_new=1),
        "at least one prompt, were: none": lambda: generate(flat, [], max_new=1),
        "tokens must be from 0 to 60, were: 1 to 61": lambda: flat.logits(tokens + 60 * late, at),
        "level must be one of .*, was: 'intar'": lambda: at.ids("intar"),
        "one list for each prompt": lambda: generate(flat, "Kelp", max_new=1),
        "sampling must be Sampling": lambda: generate(flat, [[1]], max_new=1, sampling=0.7),
        "marker must be a Marker": lambda: generate(model, [[1]], max_new=1, marker=Sentences()),
        "continues one prompt": lambda: beam_search(flat, [[1]], max_new=1, search=Beams()),
        "search must be Beams": lambda: beam_search(flat, [1], max_new=1, search=3),
        "config must be DecoderConfig": lambda: Decoder({}),
        r"tokens must be a tensor \[batch, time\], was: \[2\]": lambda: flat.logits(tokens[0], at),
        "stop_ids must be a list of ids": lambda: generate(flat, [[1]], max_new=1, stop_ids=["a"]),
        "stop_strings must be a list": lambda: generate(flat, [[1]], max_new=1, stop_strings="a"),
        "flex has no gradients on a CPU": lambda: by_flex.logits(tokens, at),
        r"offsets must be pairs .*, were: \[4\]": lambda: anchors_from_offsets("ab", [0, 1, 1, 2]),
        "segmenter must be one": lambda: Online(segmenter=Sentences),
        "tokenizer must be a fast one": lambda: segment_ids("a", None, segmenter=Sentences()),
    }.items():
        with pytest.raises(ValueError, match=told):
            call()
    sizes = {"vocab_size": 61, "n_layer": 1, "n_head": 6, "mlp_width": 64}
    scheme, fast = {"intra": target("NoPE"), "inter": NoPE()}, SimpleNamespace(encode_batch=None)
    for told, call in {
        r"marks must be UInt8\[Tensor, 'batch time'\], was: list \[\[3, 0\]\]": lambda: (
            Positions.from_marks([[3, 0]])
        ),
        "prompts must be Sequence.*, was: int 3": lambda: generate(flat, 3, max_new=1),
        "max_new must be int, was: str '2'": lambda: generate(flat, [[1]], max_new="2"),
        "at must be Positions, was: Tensor": lambda: flat.logits(tokens, tokens),
        "tokens must be Int.*, was: Positions": lambda: flat.logits(at, tokens),
        "width must be int, was: '48'": lambda: DecoderConfig(width="48", **sizes),
        "n_kv_head must be a number, was: str": lambda: DecoderConfig(
            width=48, n_kv_head="2", **sizes
        ),
        "temperature must be a number, was: str": lambda: Sampling(temperature="1"),
        "encoding must be Encoding, was: the class RoPE": lambda: Flat(encoding=RoPE),
        "fast must be a tokenizers.Tokenizer, was: str": lambda: ByteTable.of_tokenizer("gpt2"),
        "width must be int, was: 48.0": lambda: DecoderConfig(width=48.0, **sizes),
        "intra must be Encoding, was: dict": lambda: Bilevel(**scheme),
        "text must be a str, was: list": lambda: anchors_from_offsets([(0, 1)], "a"),
        "segmenter must be a Segmenter": lambda: segment_ids("a", fast, segmenter=None),
    }.items():
        with pytest.raises(TypeError, match=told):
            call()
    with pytest.raises(ValueError, match="encoding must describe"):
        Decoder(DecoderConfig(width=48, encoding=RoPE, **sizes))
    with pytest.raises(ValueError, match="ids must be integers"):
        official_marks("abc")
    with pytest.raises(ValueError, match="carry must be of 1 rows, was of 2"):
        rows = Positions.from_marks(torch.zeros(2, 2, dtype=torch.uint8))
        Positions.from_marks(torch.zeros(1, 2, dtype=torch.uint8), carry=rows.carry())
    marker = TokenMarker(segmenter=Sentences(), pieces=[b"a", b"b"])
    for token in (2, -1):
        with pytest.raises(ValueError, match=f"token must be an id of the 2 pieces, was: {token}"):
            marker.push(token)


@pytest.mark.usefixtures("unchecked_types")
def test_a_call_that_fails_for_another_reason_is_left_alone():
    model = small_decoder("flat_rope")
    with pytest.raises(TypeError, match="required keyword-only argument: 'max_new'"):
        generate(model, [[1]])
    with pytest.raises(ValueError, match="ids must be from 0 to 60, was: 99"):
        generate(model, [[99]], max_new=1)
    with pytest.raises(torch.OutOfMemoryError):  # whatever the type of the argument

        @explained
        def full(size: int):
            raise torch.OutOfMemoryError

        full("3")
