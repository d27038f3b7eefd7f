"""Cached equals recomputed, rows do not feel neighbours, samples and beams keep their rules.

A session equals reading the whole text at once, whatever is fed, split, taken back.
"""

import contextlib
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bipe import Cache, Positions
from bipe.generation import Beams, Sampling, Session, beam, beam_search, generate
from segmenters import Newline, Sentences, TokenMarker, anchors_from_offsets, mark
from tests.bipe.conftest import N_HEAD, SCHEMES, chain, close, flat, rope, small_decoder, target

# One id a byte, and some whole words.
PIECES = [bytes([byte]) for byte in range(32, 90)] + [b"\n", b". ", b""]
LETTERS = [i for i, piece in enumerate(PIECES) if piece]
LINES = TokenMarker(segmenter=Newline(), pieces=PIECES)


def whole_logits(model, tokens, segmenter):
    """All logits of a row, its marks from the text at once."""
    text = b"".join(PIECES[token] for token in tokens).decode()
    ends, offsets = 0, []
    for token in tokens:
        offsets.append((ends, ends + len(PIECES[token])))
        ends = offsets[-1][1]
    levels = segmenter.levels(text)[: model.levels]
    marks = mark(anchors_from_offsets(text, offsets), levels)
    at = Positions.from_marks(torch.from_numpy(marks)[None], levels=model.levels)
    return model.logits(torch.tensor([tokens]), at)[0]


def draw(seed, time):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, len(LETTERS), (time,), generator=generator).tolist()


@pytest.mark.parametrize("scheme", ["multilevel", "segatron_xl"])
@torch.no_grad()
def test_a_session_follows_the_levels_that_a_model_reads(scheme):
    model = small_decoder(scheme).double()
    end, line = PIECES.index(b". "), PIECES.index(b"\n")
    words = [LETTERS[id] for id in draw(1, 60) if LETTERS[id] < 58]
    row = [*words[:9], end, *words[9:14], end, line, line, *words[14:20], end, *words[20:26], line]
    row += [line, *words[26:30]]
    marker = TokenMarker(segmenter=Sentences(), pieces=PIECES, levels=2)
    session = Session(model, batch=1, marker=marker, chunk=7)
    state = session.state()
    for _ in range(2):  # the second time after a rewind
        pieces = [session.feed([row[:8]]), *(session.feed([[id]]) for id in row[8:])]
        found = torch.cat(pieces, 1)[0]
        expected = whole_logits(model, row, Sentences())
        close(found, expected)
        session.rewind(state)
    plain = TokenMarker(segmenter=Sentences(), pieces=PIECES)
    other = Session(model, batch=1, marker=plain).feed([row])[0]
    assert not torch.allclose(other[-1], expected[-1])


class LateMarker:
    """Opens a segment `late` tokens before each token whose id is 1 modulo `every`, so late."""

    def __init__(self, late=1, every=61):
        self.held, self.late, self.every = [], late, every

    def push(self, token):
        known = len(self.held) == self.late
        self.held = [*self.held, token][-self.late :]
        return [2 * (token % self.every == 1)] * known

    def provisional(self):
        return [0] * len(self.held)

    def copy(self):
        twin = LateMarker(self.late, self.every)
        twin.held = self.held.copy()
        return twin


def late_marks(tokens):
    return [2 * (later == 1) for later in tokens[1:]] + [0]


@given(
    tokens=st.lists(st.integers(0, 2), min_size=2, max_size=24),
    sizes=st.lists(st.integers(1, 5), min_size=24, max_size=24),
)
@torch.no_grad()
def test_a_mark_that_changes_is_read_again(tokens, sizes):
    model = small_decoder("bilevel_learned_rope").double()
    session = Session(model, batch=1, marker=LateMarker())
    start, last = 0, None
    for size in sizes:
        if start < len(tokens):
            last = session.feed([tokens[start : start + size]])
            start += size
    at = Positions.from_marks(torch.tensor([late_marks(tokens)], dtype=torch.uint8))
    full = model.logits(torch.tensor([tokens]), at)
    close(last[0, -1], full[0, -1])


@torch.no_grad()
def test_a_session_returns_to_any_of_its_states():
    """Also to one on another way, and to one whose last mark has changed since."""
    model = small_decoder("bilevel_learned_rope").double()
    session = Session(model, batch=1, marker=LateMarker())
    session.feed([[0, 2, 0]])
    early = session.state()
    session.feed([[2, 5]])
    late = session.state()
    session.feed([[1]])
    before, behind = [0, 2, 0], [0, 2, 0, 2, 5]
    for state, row in ((late, [*behind, 4]), (early, [*before, 7]), (late, [*behind, 3])):
        session.rewind(state)
        found = session.feed([row[-1:]])
        at = Positions.from_marks(torch.tensor([late_marks(row)], dtype=torch.uint8))
        close(found[0, -1], model.logits(torch.tensor([row]), at)[0, -1])


@torch.no_grad()
def test_documents_of_a_prompt_are_kept_apart():
    model, prompt = small_decoder("bilevel_learned_rope").double(), draw(3, 12)
    marks = [3, 0, 0, 2, 0, 0, 3, 0, 0, 2, 0, 0]
    found = Session(model, batch=1, chunk=6).feed([prompt], marks=[marks])
    close(
        found,
        model.logits(torch.tensor([prompt]), Positions.from_marks(torch.tensor([marks]).byte())),
    )
    for wrong in ([marks], [marks, marks]):
        with pytest.raises(ValueError, match=r"one per token of each prompt \(12, 1\), were"):
            generate(model, [prompt, [1]], max_new=1, marks=wrong)


@torch.no_grad()
def test_layers_and_chains_of_flat_encodings_need_no_marker():
    both = chain(rope(), flat(target("ALiBi", n_head=N_HEAD)))  # one of them is bare
    for model in (small_decoder("rnope"), small_decoder("flat_rope", encoding=both)):
        assert generate(model, [[1, 2, 3]], max_new=2)
    mixed = chain(rope(), SCHEMES["bilevel_learned_rope"])
    with pytest.raises(ValueError, match="the model counts segments"):
        generate(small_decoder("flat_rope", encoding=mixed), [[1, 2, 3]], max_new=2)


@torch.no_grad()
def test_a_cache_does_not_hold_a_token_that_was_refused():
    model, cache = small_decoder("flat_rope"), Cache(batch=1, grows=True)
    for token in (3, 99):
        at = cache.next(torch.zeros(1, 1, dtype=torch.uint8))
        with pytest.raises(ValueError, match="99") if token > 60 else contextlib.nullcontext():
            model.logits(torch.tensor([[token]]), at, cache=cache)
    assert len(cache) == 1


@pytest.mark.parametrize("scheme", ["bilevel_learned_alibi_x96", "chain"])
@torch.no_grad()
def test_given_marks_of_prompts_are_read_as_they_are(scheme):
    """Rows of other lengths, padded on the left; behind a prompt the marker opens a segment."""
    model = small_decoder(scheme).double()
    prompts = [draw(7, 17), draw(8, 11)]
    held = [
        [3] + [2 * (i % 5 == 2) for i in range(16)],
        [3] + [2 * (i % 3 == 1) for i in range(10)],
    ]
    written = draw(9, 12)
    session = Session(model, batch=2, marker=LINES, padding=[0, 6], chunk=4)
    ours = [session.feed([prompts[0], [0] * 6 + prompts[1]], marks=[held[0], [0] * 6 + held[1]])]
    ours += [session.feed([[token], [token]]) for token in written]
    text = b"".join(PIECES[token] for token in written).decode()
    ends = [sum(len(PIECES[t]) for t in written[:i]) for i in range(len(written) + 1)]
    offsets = list(itertools.pairwise(ends))
    own = mark(anchors_from_offsets(text, offsets), [Newline().cut(text)])
    own[0] = 2
    for row, pad in enumerate((0, 6)):
        marks = torch.tensor([[*held[row], *own.tolist()]], dtype=torch.uint8)
        full = model.logits(torch.tensor([prompts[row] + written]), Positions.from_marks(marks))
        found = torch.cat([ours[0][row, pad:], *(each[row] for each in ours[1:])])
        close(found, full[0])


NONE = torch.empty(0, dtype=torch.int64)


# Rotations, biases of every kind, several levels, and windows.
KINDS = ("flat_rope", "flat_fox", "flat_shaw", "bilevel_t5", "multilevel", "bipe_alibi", "swan")


@pytest.mark.parametrize(
    ("scheme", "static"), [*((scheme, True) for scheme in KINDS), ("chain", False)]
)
@torch.no_grad()
def test_greedy_equals_recomputing_everything(scheme, static):
    model = small_decoder(scheme).double()
    prompt, expected = draw(1, 12), []
    for _ in range(6):
        logits = whole_logits(model, prompt + expected, Newline())
        expected.append(int(logits[-1].argmax()))
    (written,) = generate(model, [prompt], max_new=6, marker=LINES, static=static, chunk=5)
    assert written.tokens == expected
    assert written.ended == "length"


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0.0, repetition_penalty=1.3)]
)
@torch.no_grad()
def test_a_row_does_not_feel_its_neighbours(sampling):
    model = small_decoder("bilevel_learned_alibi_x96").double()
    prompts = [draw(2, 3), draw(3, 14), draw(4, 9)]
    arguments = {"max_new": 12, "marker": LINES, "stop_ids": [7], "sampling": sampling}
    together = generate(model, prompts, **arguments)
    # Streams are drawn by row: each prompt keeps its place, beside copies of itself.
    for row, prompt in enumerate(prompts):
        alone = generate(model, [prompt] * (row + 1), **arguments)
        assert alone[row] == together[row]


@pytest.mark.parametrize("scheme", ["flat_rope", "flat_alibi"])
def test_padding_may_fill_the_first_chunks_of_a_row_without_marks(scheme):
    model = small_decoder(scheme).double()
    prompts = [draw(5, 14), draw(6, 3)]
    together = generate(model, prompts, max_new=6, chunk=4)
    assert together == [generate(model, [prompt], max_new=6)[0] for prompt in prompts]


def test_the_same_seed_writes_the_same_and_another_does_not():
    model = small_decoder("flat_rope")
    one, again, other = (
        generate(model, [[1, 2]], max_new=20, sampling=Sampling(), seed=seed) for seed in (0, 0, 1)
    )
    assert one == again != other


def test_stop_ids_and_stop_strings_end_a_row():
    model = small_decoder("flat_rope")

    def decode(ids):
        return "".join(chr(0x4E00 + id) for id in ids)

    (free,) = generate(model, [[1, 2, 3]], max_new=30, decode=decode)
    stop = free.text[6:9]
    (ended,) = generate(model, [[1, 2, 3]], max_new=30, decode=decode, stop_strings=["zz", stop])
    assert ended.text == free.text[: free.text.index(stop)]
    assert ended.ended == "stop"
    assert len(ended.tokens) == len(ended.text) + 3
    (ended,) = generate(model, [[1, 2, 3]], max_new=30, stop_ids=free.tokens[4:5])
    assert ended.tokens == free.tokens[: free.tokens.index(free.tokens[4])]
    assert ended.ended == "stop"


def test_every_token_is_told_as_it_comes():
    told = []
    written = generate(
        small_decoder("flat_rope"),
        [[1], [2, 3]],
        max_new=5,
        on_token=lambda row, token: told.append((row, token)),
    )
    for row, found in enumerate(written):
        assert [token for at, token in told if at == row] == found.tokens


logits_lists = st.lists(
    st.floats(-20, 20, width=32).map(lambda x: round(x, 3)), min_size=2, max_size=30, unique=True
)


@given(logits=logits_lists, top_k=st.integers(1, 40), top_p=st.floats(0.01, 1.0))
def test_sampling_keeps_the_fewest_likely_tokens(logits, top_k, top_p):
    values = torch.tensor(logits)
    kept = Sampling(top_k=top_k).filtered(values, NONE) > float("-inf")
    assert kept.sum() == min(top_k, len(logits))
    assert values[kept].min() >= values[~kept].max() if (~kept).any() else True
    kept = Sampling(top_p=top_p).filtered(values, NONE) > float("-inf")
    ordered = values.softmax(-1)[kept].sort(descending=True).values
    assert ordered.sum() >= top_p - 1e-5
    assert ordered[:-1].sum() < top_p + 1e-5
    assert values[kept].min() >= values[~kept].max() if (~kept).any() else True


def test_the_repetition_penalty_lowers_what_was_seen():
    logits = torch.tensor([2.0, -2.0, 1.0])
    found = Sampling(repetition_penalty=2.0).filtered(logits, torch.tensor([0, 1]))
    assert found.tolist() == [1.0, -4.0, 1.0]


def test_draws_follow_the_chances():
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.0, 1.0, 2.0])
    draws = torch.tensor([Sampling().draw(logits, NONE, generator) for _ in range(3000)])
    shares = torch.bincount(draws, minlength=3) / len(draws)
    torch.testing.assert_close(shares, logits.softmax(-1), atol=0.03, rtol=0)


STOP = 2


def exhaustive(model, prompt, *, max_new, search):
    """Every continuation with its score by whole forward passes, best first."""
    going_on = set(range(model.config.vocab_size)) - {STOP}
    scored = []
    for length in range(max_new + 1):
        written = [*itertools.product(going_on, repeat=length)]
        rows = torch.tensor([[*prompt, *tokens] for tokens in written])
        at = Positions.from_marks(torch.zeros(rows.shape, dtype=torch.uint8))
        chances = model.logits(rows, at).double().log_softmax(-1)[:, len(prompt) - 1 :].tolist()
        for tokens, row in zip(written, chances, strict=True):
            drawn = [*tokens, *([STOP] if length < max_new else [])]
            total = sum(row[i][token] for i, token in enumerate(drawn))
            scored.append((search.score(total, len(drawn)), list(tokens)))
    return sorted(scored, key=lambda each: -each[0])


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1000),
    penalty=st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
    max_new=st.integers(1, 3),
)
@torch.no_grad()
def test_a_beam_of_everything_is_exhaustive_search(seed, penalty, max_new):
    model = small_decoder("flat_rope", seed=seed, vocab_size=4).double()
    for early in (False, True):
        # More beams than continuations: early stopping then finds nothing to stop.
        search = Beams(beams=3**3 + 3**2 + 3 + 1, length_penalty=penalty, early_stopping=early)
        found = beam_search(model, [1, 3], max_new=max_new, search=search, stop_ids=[STOP])
        expected = exhaustive(model, [1, 3], max_new=max_new, search=search)
        assert len(found) == len(expected)
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected])
        assert found[0].tokens == expected[0][1]


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), penalty=st.sampled_from([-1.0, 0.0, 0.7, 1.5]))
@torch.no_grad()
def test_ending_late_finds_what_never_ending_finds(seed, penalty):
    """The bound on open hypotheses leaves none aside that would have won."""
    model = small_decoder("flat_rope", seed=seed, vocab_size=6).double()
    search = Beams(beams=2, length_penalty=penalty, early_stopping=False)
    how = {"max_new": 7, "search": search, "stop_ids": [STOP]}
    found = beam_search(model, [1], **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "_is_over", lambda *_: False)
        assert found == beam_search(model, [1], **how)


@torch.no_grad()
def test_scores_are_those_of_reading_everything_again():
    model = small_decoder("bilevel_learned_alibi_x96").double()
    prompt = draw(4, 20)
    found = beam_search(model, prompt, max_new=9, search=Beams(beams=5), marker=LINES, chunk=6)
    assert len(found) == 5
    assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    for each in found:
        logits = whole_logits(model, prompt + each.tokens, Newline())
        assert each.score == pytest.approx(mean_of(logits, each.tokens, len(prompt)))


def mean_of(logits, tokens, begin):
    chances = logits.log_softmax(-1)
    return sum(float(chances[begin - 1 + i, id]) for i, id in enumerate(tokens)) / len(tokens)


@torch.no_grad()
def test_given_marks_are_used_and_the_marker_begins_behind_them():
    model = small_decoder("bilevel_learned_rope").double()
    prompt, marks = draw(5, 12), [3, 0, 0, 2, 0, 2, 0, 0, 0, 0, 2, 0]
    how = {"max_new": 6, "search": Beams(beams=3), "marker": LateMarker(), "marks": marks}
    for each in beam_search(model, prompt, **how):
        # LateMarker leaves the first mark to what follows; it opens no document.
        at = Positions.from_marks(torch.tensor([marks + late_marks(each.tokens)]).byte())
        logits = model.logits(torch.tensor([prompt + each.tokens]), at)[0]
        assert each.score == pytest.approx(mean_of(logits, each.tokens, 12))


@torch.no_grad()
def test_beams_may_change_the_last_mark_of_the_prompt():
    model, prompt = small_decoder("bilevel_learned_rope", seed=2).double(), draw(2, 9)
    how = {"max_new": 5, "search": Beams(beams=4), "marker": LateMarker(every=3)}
    for each in beam_search(model, prompt, **how):
        logits = []
        for row in ([*prompt, *each.tokens[:i]] for i in range(5)):
            marks = [2 * (later % 3 == 1) for later in row[1:]] + [0]
            at = Positions.from_marks(torch.tensor([marks], dtype=torch.uint8))
            logits.append(model.logits(torch.tensor([row]), at)[0, -1])
        assert each.score == pytest.approx(mean_of(torch.stack(logits), each.tokens, 1))
