"""Several levels: what combines, what each reads, and what is refused."""

import dataclasses

import pytest
import torch

from bipe import Positions
from bipe.build import build
from bipe.encodings import ALiBi, NoPE, RoPE
from bipe.encodings.alibi import alibi_slopes
from bipe.encodings.multilevel import Multilevel
from bipe.encodings.permuteformer import PermuteFormer
from bipe.encodings.t5 import T5
from bipe.encodings.xpos import XPos
from bipe.random_positions import Shifted, row_keys
from tests.bipe.conftest import (
    CONFIGURED,
    chain,
    far,
    levels,
    random_batch,
    small_decoder,
    target,
)

SIZES = {"head_width": 8}


@torch.no_grad()
def test_scores_of_multilevel_are_those_of_its_parts():
    """The YAML: half of each head turns by the sentence, ALiBi counts paragraphs."""
    scheme = build(CONFIGURED["multilevel"])
    at = random_batch(2, 50, seed=3)[1]
    x, q, k = torch.zeros(2, 50, 48), torch.randn(2, 6, 50, 8), torch.randn(2, 6, 50, 8)
    table = scheme.encodings["token"].table.weight
    torch.testing.assert_close(scheme.embed(x, at), table[at.intra.clamp(max=len(table) - 1)])
    angle = at.levels[0].double()[:, None, :, None] * 10000.0 ** (-torch.arange(2) / 2)
    turn = torch.polar(torch.ones_like(angle), angle)
    rotation = scheme.rotation(at)
    for x, turned in ((q, rotation.query(q)), (k, rotation.key(k))):
        pairs = torch.complex(x[..., :2].double(), x[..., 2:4].double()) * turn
        expected = torch.cat((pairs.real, pairs.imag, x[..., 4:].double()), -1)
        torch.testing.assert_close(turned.double(), expected, atol=1e-6, rtol=0)
    apart = at.levels[1][:, None, None, :] - at.levels[1][:, None, :, None]
    slopes = torch.tensor(alibi_slopes(6), dtype=torch.float64)[:, None, None]
    torch.testing.assert_close(scheme.bias(at, at).dense(torch.float64), slopes * apart)


def test_linear_biases_of_all_levels_are_one_of_places_as_in_bilevel():
    """A sentence counts as 4 tokens and a paragraph as 9, whatever their lengths."""
    at = random_batch(2, 50, seed=3)[1]
    parts = {
        name: ALiBi(n_head=2, multiplier=m) for name, m in (("a", 1.0), ("b", 4.0), ("c", 9.0))
    }
    places = at.intra + 4 * at.levels[0] + 9 * at.levels[1]
    expected = ALiBi(n_head=2).bias(places, places).dense(torch.float64)
    torch.testing.assert_close(
        Multilevel(encodings=parts).bias(at, at).dense(torch.float64), expected
    )


def test_a_draw_changes_the_coarsest_level_and_leaves_those_inside():
    tokens, at = random_batch(3, 40, seed=2)
    drawn = Shifted(most=1000).drawn(at, row_keys(tokens, seed=0, step=0))
    assert torch.equal(drawn.levels[0], at.levels[0])
    moved = drawn.levels[1] - at.levels[1]
    for row in range(3):
        for document in at.document[row].unique():
            assert len(moved[row, at.document[row] == document].unique()) == 1
    plain = Shifted(most=1000).drawn(
        dataclasses.replace(at, levels=()), row_keys(tokens, seed=0, step=0)
    )
    assert torch.equal(plain.token, drawn.token) and torch.equal(plain.inter, drawn.inter)
    assert moved.unique().numel() > 1


@torch.no_grad()
def test_four_levels_and_their_order():
    """Equal ids inside give equal outputs: each encoding reads its own level alone."""
    learned = {"_target_": "bipe.encodings.Learned", "width": 48, "length": 30}
    names = ("token", "line", "definition", "file")
    four = levels(**dict.fromkeys(names, learned))
    model = small_decoder("flat_nope", encoding=four).double()
    assert model.levels == 3
    tokens, marks = torch.zeros(1, 8, dtype=torch.long), [15, 0, 2, 6, 0, 14, 2, 0]
    at = Positions.from_marks(torch.tensor([marks], dtype=torch.uint8), levels=3)
    found = model.scheme.embed(torch.zeros(1, 8, 48).double(), at)[0]
    tables = [each.table.weight for each in model.scheme.encodings.values()]
    counted = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0)]
    counted += [(0, 0, 0, 1), (0, 1, 0, 1), (1, 1, 0, 1)]
    expected = [sum(t[i] for t, i in zip(tables, ids, strict=True)) for ids in counted]
    torch.testing.assert_close(found, torch.stack(expected))
    with pytest.raises(ValueError, match="levels must be 3, as many as the encoding reads, was: 2"):
        model(tokens, Positions.from_marks(torch.tensor([marks]).byte(), levels=2))
    with pytest.raises(ValueError, match=r"levels must be 3.*was: 1"):
        model(tokens, Positions.from_marks(torch.tensor([marks]).byte()))


ROPE, HALVES = RoPE(**SIZES), [RoPE(**SIZES, part=part) for part in ((0.0, 0.5), (0.5, 1.0))]


NTK = target("RoPE", **SIZES, stretch=far("DynamicNTK", factor=2.0, original_length=9))


@pytest.mark.parametrize(
    ("encodings", "message"),
    [
        ([NoPE(), T5(n_head=2), NoPE()], "b: T5 has a bias that needs increasing ids, but"),
        ([XPos(**SIZES), NoPE(), NoPE()], "a: XPos has a decay that needs increasing ids"),
        ([NoPE(), PermuteFormer(**SIZES, n_head=2), NoPE()], "b: PermuteFormer has a bias"),
        ([NoPE(), ROPE, RoPE(**SIZES)], "b and c: both rotate feature 0 of the heads"),
        ([HALVES[0], NoPE(), ROPE], "a and c: both rotate feature 0"),
        ([NoPE(), ROPE], "encodings must have 3 to 8.*was: 2"),
        ([NoPE()] * 9, "encodings must have 3 to 8.*was: 9"),
        ([NoPE(), NoPE(), build(NTK)], "c: a dynamic stretch needs the final number of units"),
    ],
)
def test_what_has_no_meaning_is_refused_with_the_reason(encodings, message):
    with pytest.raises(ValueError, match=message):
        Multilevel(encodings=dict(zip("abcdefghi", encodings, strict=False)))


def test_two_numbers_of_levels_in_a_model_are_refused():
    three, four = (levels(**dict.fromkeys(names, target("NoPE"))) for names in ("abc", "abcd"))
    with pytest.raises(ValueError, match=r"the same number of levels.*had: 2, 3"):
        small_decoder("flat_nope", encoding=chain(three, four))
