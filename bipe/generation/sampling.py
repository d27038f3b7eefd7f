"""Generate text token by token, sampled from a model.

    texts = generate(model, [prompt], sampling=Sampling(temperature=0.8, top_p=0.95), max_new=100)

Rows are padded on the left, and each is drawn from its own stream of (seed, row), so a continuation
does not depend on the other prompts. The marker (session.py) continues the segments.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

import torch
from jaxtyping import Float
from torch import Tensor

from bipe.arguments import explained, require, require_at_least
from bipe.decoder import Decoder
from bipe.generation.session import PREFILL_CHUNK, Marker, Session, require_sound

_PADDING = 0  # any id serves: nothing attends to it
_BYTES = 4  # of a character at most, in UTF-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are chosen from logits, applied in this order.

    repetition_penalty: logits of tokens in the row are divided by it if positive, else multiplied
        (Keskar et al., 1909.05858); 1: no penalty. temperature: divides logits; 0 always chooses
        the most likely token. top_k: sample from the k most likely; None: all. top_p: sample from
        the fewest that together reach this probability (Holtzman et al., 1904.09751).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        require_at_least(0, temperature=self.temperature)
        require_at_least(1, top_k=self.top_k)
        top_k, temperature, penalty = self.top_k, self.temperature, self.repetition_penalty
        sound = isinstance(top_k, Integral | None) and not isinstance(top_k, bool)
        require(sound, "a whole number or None", top_k=top_k)
        numbers = {"temperature": temperature, "top_p": self.top_p, "repetition_penalty": penalty}
        for name, value in numbers.items():
            require(isinstance(value, Real), "a number", **{name: value})
        # Beyond these bounds logits may be infinite.
        require(not 0 < temperature < 1e-20, "0 or at least 1e-20", temperature=temperature)
        require(1e-10 <= penalty <= 1e10, "from 1e-10 to 1e10", repetition_penalty=penalty)
        require(0 < self.top_p <= 1, "above 0 and at most 1", top_p=self.top_p)

    def filtered(self, logits: Float[Tensor, " vocab"], seen: Tensor) -> Float[Tensor, " vocab"]:
        """Return the logits to draw from, -inf for excluded tokens. seen: ids in the row."""
        if self.repetition_penalty != 1 and len(seen):
            old = logits[seen]
            penalty = torch.where(old > 0, 1 / self.repetition_penalty, self.repetition_penalty)
            logits = logits.index_put((seen,), old * penalty)
        if self.temperature > 0:
            logits = logits / self.temperature
        if self.top_k is not None and self.top_k < len(logits):
            least = logits.topk(self.top_k).values[-1]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p < 1:
            ordered, order = logits.sort(descending=True, stable=True)
            chances = ordered.softmax(-1)
            # A token stays while those before it have not reached top_p: the first always does.
            out = chances.cumsum(-1) - chances >= self.top_p
            logits = logits.masked_fill(out.scatter(0, order, out), float("-inf"))
        return logits

    def draw(
        self, logits: Float[Tensor, " vocab"], seen: Tensor, generator: torch.Generator
    ) -> int:
        """Return the id of the next token."""
        logits = self.filtered(logits.float(), seen)
        if self.temperature == 0:
            return int(logits.argmax())
        chances = logits.softmax(-1).to(generator.device)
        return int(torch.multinomial(chances, 1, generator=generator))


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A continuation. ended: "stop" (an id or string) or "length". text: before a stop string."""

    tokens: list[int]
    ended: str
    text: str | None = None


@explained
def generate(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    *,
    max_new: int,
    sampling: Sampling | None = None,
    marker: Marker | None = None,
    marks: Sequence[Sequence[int]] | None = None,
    stop_ids: Sequence[int] = (),
    stop_strings: Sequence[str] = (),
    decode: Callable[[list[int]], str] | None = None,
    seed: int = 0,
    static: bool = True,
    chunk: int = PREFILL_CHUNK,
    on_token: Callable[[int, int], None] | None = None,
) -> list[Written]:
    """Generate at most `max_new` tokens after each prompt.

    sampling: greedy by default. marker: finds segments, for bilevel models. marks: of the prompts,
    if the marker starts after them. stop_strings: need `decode`. static: allocate the whole cache
    at once. chunk: prompt tokens per forward pass. on_token: called with (row, id). Raises
    ValueError for an empty prompt, or stop strings without `decode`.
    """
    require_sound(model, prompts, max_new, marker=marker, marks=marks, stop_ids=stop_ids)
    require(isinstance(sampling, Sampling | None), "Sampling(...) or None", sampling=sampling)
    sound = not isinstance(stop_strings, str) and "" not in stop_strings
    require(sound, "a list of texts that are not empty", stop_strings=stop_strings)
    if stop_strings and decode is None:
        raise ValueError("stop_strings need decode=, a function from ids to text")
    longest = max(map(len, prompts))
    padding = [longest - len(prompt) for prompt in prompts]
    session = Session(
        model,
        batch=len(prompts),
        marker=marker,
        padding=padding,
        capacity=longest + max_new if static else None,
        chunk=chunk,
        room=max_new,
    )
    rows = [
        _Row(
            prompt=prompt,
            generator=_stream(seed, row),
            sampling=sampling or Sampling(temperature=0.0),
            stop_ids=frozenset(stop_ids),
            stop_strings=tuple(stop_strings),
            decode=decode,
        )
        for row, prompt in enumerate(prompts)
    ]
    fed = [[_PADDING] * pad + list(prompt) for pad, prompt in zip(padding, prompts, strict=True)]
    known = None
    if marks is not None:
        known = [[0] * pad + list(row) for pad, row in zip(padding, marks, strict=True)]
    going = rows
    for turn in range(max_new):
        logits = session.feed(fed, marks=known if not turn else None, last_only=True)[:, -1]
        for row, scores in zip(going, logits, strict=True):
            row.choose(scores)
            if on_token is not None and len(row.tokens) > turn:
                on_token(rows.index(row), row.tokens[-1])
        left = [place for place, row in enumerate(going) if row.ended is None]
        if not left or turn == max_new - 1:
            break
        session.select(left)
        going = [going[place] for place in left]
        fed = [[row.tokens[-1]] for row in going]
    return [row.written() for row in rows]


def _stream(seed: int, row: int) -> torch.Generator:
    # torch's CPU generator uses only 32 bits of a seed.
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}/{row}".encode()))


@dataclass(slots=True, eq=False, kw_only=True)
class _Row:
    """A prompt and what has been written behind it. ended: None while it goes on."""

    prompt: Sequence[int]
    generator: torch.Generator
    sampling: Sampling
    stop_ids: frozenset[int]
    stop_strings: tuple[str, ...]
    decode: Callable[[list[int]], str] | None
    tokens: list[int] = field(default_factory=list)
    ended: str | None = None

    def choose(self, logits: Tensor) -> None:
        """Draw the next token and add it, unless it ends the row."""
        penalised = self.sampling.repetition_penalty != 1
        seen = sorted({*self.prompt, *self.tokens}) if penalised else []
        at = torch.tensor(seen, dtype=torch.int64, device=logits.device)
        token = self.sampling.draw(logits, at, self.generator)
        if token in self.stop_ids:
            self.ended = "stop"
            return
        self.tokens.append(token)
        if self.stop_strings and self.decode is not None:
            # Enough tokens for a stop string even if each is only one byte of a character.
            window = _BYTES * (1 + max(map(len, self.stop_strings)))
            text = self.decode(self.tokens[-window:])
            if any(stop in text for stop in self.stop_strings):
                self.ended = "stop"

    def written(self) -> Written:
        """Return the continuation, with its text cut before the first stop string."""
        text = None if self.decode is None else self.decode(self.tokens)
        if text is not None:
            places = (text.find(stop) for stop in self.stop_strings)
            text = text[: min((at for at in places if at >= 0), default=None)]
        return Written(tokens=self.tokens, ended=self.ended or "length", text=text)
