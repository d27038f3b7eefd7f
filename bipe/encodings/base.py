"""The three hooks of a position encoding, and the schemes that pass it ids.

An encoding sees integer ids and never segments; a scheme decides what the ids count:
`Flat(RoPE(...))` counts tokens of the document; `Bilevel(intra=Learned(...), inter=RoPE(...))` is
BiPE-RoPE (He et al., 2401.16421, eq. 3 and 4): tokens of the segment, and segments.

    embed(x, ids)       changes the embeddings
    rotation(ids)       a rotation of queries and keys, computed once and applied in each layer
    bias(q_ids, k_ids)  what to add to attention scores: a description (bias.py), no T x T tensor
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.arguments import explained, require
from bipe.bias import Bias, KeyIds, QueryIds, add_biases
from bipe.encodings.far import Far, Ids
from bipe.positions import Level, Positions
from bipe.rotation import Rotation, compose


class Encoding(nn.Module):
    """A position encoding; a hook that is not overridden changes nothing.

    relative: scores stay the same when all ids of a document are shifted by one number.
    random: random in training, a new draw per call; deterministic in evaluation.
    layered: the bias differs between layers, or depends on their hidden states (content.py).
    decays: the rotation makes scores decrease with distance, which must not be negative.
    either_sign: the bias is also defined where a key has a greater id than a later query.
    counts_length: `rotation` also needs the ids per document, `length=`: ``(batch, time or 1)``.
    """

    relative: ClassVar[bool] = True
    random: ClassVar[bool] = False
    layered: ClassVar[bool] = False
    decays: bool = False
    either_sign: bool = False
    counts_length: bool = False

    def __init__(self) -> None:
        super().__init__()
        self._constants: dict[str, Tensor] = {}

    def embed(
        self, x: Float[Tensor, "batch time width"], ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        """Return `x`, the embeddings of tokens at `ids`, with the encoding added."""
        return x

    def rotation(self, ids: Int[Tensor, "batch time"]) -> Rotation | None:
        """Return the rotation of queries and keys at `ids`; None: no rotation."""
        return None

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> Bias | None:
        """Return the bias on scores of queries at `q_ids` and keys at `k_ids`; None: no bias."""
        return None

    def starts(self) -> Mapping[str, float | None]:
        """Return the standard deviations for parameters that do not use the model's.

        None: the parameter keeps its values from the constructor, as all vectors do.
        """
        return {}

    def constant(self, name: str, value: Tensor) -> None:
        """Register a buffer that moves with the module, keeps its dtype and is not saved."""
        self._constants[name] = value
        self.register_buffer(name, value, persistent=False)

    def _apply(self, fn, recurse: bool = True):  # type: ignore[no-untyped-def]
        super()._apply(fn, recurse)
        # Undo casts and `to_empty`: rounded frequencies and slopes are noise at long range.
        for name, value in self._constants.items():
            self._buffers[name] = value.to(self._buffers[name].device)  # type: ignore[union-attr]
        return self


@runtime_checkable
class Scheme(Protocol):
    """The interface of a decoder: the three hooks, with `Positions` instead of ids."""

    def embed(self, x: Tensor, at: Positions) -> Tensor: ...
    def rotation(self, at: Positions) -> Rotation | None: ...
    def bias(self, q_at: Positions, k_at: Positions) -> Bias | None: ...


class Fed(nn.Module, ABC):
    """Encodings that each get the ids of their own level, or of a pass of `far` at `level`."""

    level: Level
    far: Far | None

    @abstractmethod
    def fed(self) -> dict[Level, Encoding]:
        """Return the encodings in the order in which they are applied."""

    def embed(self, x: Tensor, at: Positions) -> Tensor:
        for level, encoding in self.fed().items():
            x = encoding.embed(x, at.ids(level))
        return x

    def rotation(self, at: Positions, *, ids: Ids | None = None) -> Rotation | None:
        rotations = []
        for level, encoding in self.fed().items():
            of_level = at.ids(level) if ids is None or level != self.level else ids
            length = {"length": at.length(level)} if encoding.counts_length else {}
            rotations.append(encoding.rotation(of_level, **length))
        return compose(*rotations)

    def bias(
        self, q_at: Positions, k_at: Positions, *, ids: tuple[Ids, Ids] | None = None
    ) -> Bias | None:
        biases = []
        for level, encoding in self.fed().items():
            # Skip encodings without a bias: where only rotations change, ids may be fractions.
            if has_hook(type(encoding), "bias"):
                of_level = None if level != self.level else ids
                biases.append(encoding.bias(*of_level or (q_at.ids(level), k_at.ids(level))))
        return add_biases(*biases)


class Flat(Fed):
    """An ordinary encoding, which counts tokens from the start of the document."""

    level = "token"

    @explained
    def __init__(self, *, encoding: Encoding, far: Far | None = None) -> None:
        super().__init__()
        self.encoding, self.far = encoding, far
        _require_hook(encoding, far)

    def fed(self) -> dict[Level, Encoding]:
        return {"token": self.encoding}


class Bilevel(Fed):
    """BiPE: `intra` counts tokens inside a segment, `inter` counts segments.

    Raises ValueError for an `intra` with a bias or decay, since ids restart in each segment.
    """

    level = "inter"

    @explained
    def __init__(self, *, intra: Encoding, inter: Encoding, far: Far | None = None) -> None:
        super().__init__()
        require_inner("intra", intra, unit="segment", last="inter")
        self.intra, self.inter, self.far = intra, inter, far
        _require_hook(inter, far)

    def fed(self) -> dict[Level, Encoding]:
        return {"intra": self.intra, "inter": self.inter}


def as_scheme(encoding: Any) -> Any:
    """Wrap a bare encoding in `Flat`; return a scheme unchanged; else raise ValueError."""
    if isinstance(encoding, Encoding):
        return Flat(encoding=encoding)
    hooks = ("embed", "rotation", "bias")
    if isinstance(encoding, type) or not all(callable(getattr(encoding, x, None)) for x in hooks):
        raise ValueError(
            "encoding must describe a position encoding, for example "
            f"{{'_target_': 'bipe.encodings.NoPE'}}, was: {encoding!r}"
        )
    return encoding


class Chain(nn.Module):
    """Several schemes, applied in order; at most one has a far method, which affects no other."""

    @explained
    def __init__(self, *, links: list[Scheme | Encoding]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(map(as_scheme, links))
        far = [link for link in self.links if far_of(link) is not None]
        if len(far) > 1:
            raise ValueError(f"at most one encoding of a chain may set far, {len(far)} do")
        self.far = far_of(far[0]) if far else None
        self.level = far[0].level if far else "token"

    @property
    def links(self) -> list[Any]:
        return list(self.parts)

    def embed(self, x: Tensor, at: Positions) -> Tensor:
        for link in self.links:
            x = link.embed(x, at)
        return x

    def rotation(self, at: Positions, *, ids: Ids | None = None) -> Rotation | None:
        return compose(*(link.rotation(at, **_ids(link, ids)) for link in self.links))

    def bias(
        self, q_at: Positions, k_at: Positions, *, ids: tuple[Ids, Ids] | None = None
    ) -> Bias | None:
        return add_biases(*(link.bias(q_at, k_at, **_ids(link, ids)) for link in self.links))


class Layers(nn.Module):
    """Different schemes in different layers; embeddings are changed once, by all of them.

        Layers(schemes={"a": .., "b": ..}, pattern=["a", "a", "a", "b"])      every fourth layer b
        Layers(schemes={"a": .., "b": ..}, pattern=["a", "b"], n_layer=12)    six layers a, six b

    Examples: NoPE in every n-th layer, RoPE in the others (RNoPE-SWA, 2501.18795); NoPE with log-n
    scaling and RoPE with windows (SWAN, 2504.08719); flat below and bilevel above. Each scheme has
    its own `far`.
    pattern: names, repeated over the layers, or spread over `n_layer`.
    """

    def __init__(
        self,
        *,
        schemes: Mapping[str, Scheme | Encoding],
        pattern: list[str],
        n_layer: int | None = None,
    ) -> None:
        super().__init__()
        if set(pattern) != set(schemes):
            raise ValueError(
                f"pattern must use each of the schemes ({', '.join(schemes)}) and no other name, "
                f"was: {', '.join(pattern)}"
            )
        least = len(pattern)
        require(n_layer is None or n_layer >= least, f"at least {least} (pattern)", n_layer=n_layer)
        self.schemes = nn.ModuleDict({name: as_scheme(part) for name, part in schemes.items()})
        self.pattern, self.n_layer = list(pattern), n_layer

    def of_layer(self, layer: int) -> Any:
        size = len(self.pattern)
        at = layer % size if self.n_layer is None else layer * size // self.n_layer
        return self.schemes[self.pattern[at]]

    def embed(self, x: Tensor, at: Positions) -> Tensor:
        for scheme in self.schemes.values():
            x = scheme.embed(x, at)  # type: ignore[operator, union-attr]
        return x

    # The decoder asks `of_layer`; what describes a model looks at the first layer.
    def rotation(self, at: Positions) -> Rotation | None:
        """Return the rotation of the first layer."""
        rotation: Rotation | None = self.of_layer(0).rotation(at)
        return rotation

    def bias(self, q_at: Positions, k_at: Positions) -> Bias | None:
        """Return the bias of the first layer."""
        bias: Bias | None = self.of_layer(0).bias(q_at, k_at)
        return bias


# Ids of a pass are for the link with the far method; others count their own.
def _ids(link: Any, ids: Any) -> dict[str, Any]:
    return {} if ids is None or far_of(link) is None else {"ids": ids}


def of_layer(scheme: Any, layer: int) -> Any:
    return scheme.of_layer(layer) if hasattr(scheme, "of_layer") else scheme


def far_of(scheme: Any) -> Far | None:
    return getattr(scheme, "far", None)


def reads_segments(scheme: Any) -> bool:
    """Return whether what a scheme does depends on segments; texts of others need no marks."""
    if isinstance(scheme, Chain | Layers):
        parts = scheme.links if isinstance(scheme, Chain) else scheme.schemes.values()
        return any(map(reads_segments, parts))
    far = far_of(scheme)
    return not isinstance(scheme, Flat) or (far is not None and far.reads_segments)


def has_hook(encoding: type[Encoding], hook: str) -> bool:
    return getattr(encoding, hook, None) is not getattr(Encoding, hook)


def require_hook(encoding: Encoding) -> None:
    """Raise ValueError for an encoding with parameters that no hook uses, as if one is misspelt."""
    kind, hooks = type(encoding), ("embed", "rotation", "bias")
    if any(True for _ in encoding.parameters()) and not any(has_hook(kind, x) for x in hooks):
        said = [
            f"; {name!r} is none: did you mean {close[0]!r}?"
            for name in vars(kind)
            if (close := difflib.get_close_matches(name, hooks, n=1))
        ]
        raise ValueError(
            f"{kind.__name__} has parameters but none of {', '.join(hooks)}{''.join(said)}"
        )


def require_inner(name: str, encoding: Encoding, *, unit: str, last: str) -> None:
    """Raise ValueError for an encoding that needs ids which grow through the document."""
    kind = type(encoding)
    if not encoding.either_sign and (has_hook(kind, "bias") or encoding.decays):
        what = "a bias" if has_hook(kind, "bias") else "a decay"
        raise ValueError(
            f"{name}: {kind.__name__} has {what} that needs increasing ids, but ids restart in "
            f"each {unit}: use it as {last}, and an absolute encoding (learned, sinusoidal) or "
            "RoPE here"
        )


def counts_length(scheme: nn.Module) -> bool:
    return any(isinstance(part, Encoding) and part.counts_length for part in scheme.modules())


def annealed(scheme: Any) -> list[Any]:
    """Return the parts that change over a training: those with a method `anneal(done)`.

    done: the share of training that is over, 0 in the first step, 1 in the last.
    """
    return [part for part in scheme.modules() if hasattr(part, "anneal")]


def levels_of(scheme: Any) -> int:
    """Return how many levels of marks a scheme reads: 1, but for several levels (multilevel.py)."""
    counts = {int(part.levels) for part in scheme.modules() if hasattr(part, "levels")}
    if len(counts) > 1:
        raise ValueError(
            "all Multilevel encodings of a model must have the same number of levels, since the "
            f"coarsest counts units of the document, had: {', '.join(map(str, sorted(counts)))}"
        )
    return counts.pop() if counts else 1


def _require_hook(encoding: Encoding, far: Far | None) -> None:
    """Raise TypeError for what is no encoding, ValueError for a method that would not change it."""
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be an Encoding, such as NoPE(), was: {encoding!r}")
    if far is not None and encoding.layered:
        raise ValueError(
            f"{type(far).__name__} changes the ids of some keys, which is not supported with "
            f"{type(encoding).__name__}, which depends on hidden states: remove far"
        )
    serves = far.serves if far is not None else ()
    if serves and not any(has_hook(type(encoding), hook) for hook in serves):
        raise ValueError(
            f"{type(far).__name__} changes the {' or '.join(serves)} of an encoding, but "
            f"{type(encoding).__name__} has none: remove far"
        )
