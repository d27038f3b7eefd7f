"""A LLaMA decoder (Touvron et al., 2302.13971) that takes positions as data.

Segments do not occur here: the encoding turns positions into a rotation and a bias.
Shape suffixes: b batch, t time, c width, h head, d head width, v vocabulary.
"""

import contextlib
import dataclasses
import functools
import pathlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bipe.arguments import explained, nodes, require, require_at_least
from bipe.attention import PATHS, Path
from bipe.attention.context import Context, refuse_shared
from bipe.attention.dispatch import InLayer, choose_attention
from bipe.attention.heads import Attention, padded
from bipe.attention.passes import pass_attention, seen_later
from bipe.build import ALLOWED, TARGET, Of, build
from bipe.cache import Cache
from bipe.encodings import Encoding, Scheme
from bipe.encodings.base import as_scheme, counts_length, far_of, levels_of, of_layer, require_hook
from bipe.positions import Positions, too_few_levels
from bipe.rotation import Rotation

# A field that may be left out of a description and is filled in by __post_init__.
if TYPE_CHECKING:
    HeadWidth = int
else:
    HeadWidth = int | None


def _on_amd() -> bool:
    try:
        return "AuthenticAMD" in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:  # no Linux
        return False


# Rows of which `Projection` is faster than torch's own layer.
_LEAST, _MOST = 1 if _on_amd() else 5, 8
# Stores the keys and values of new tokens in a cache; returns those of all tokens so far.
Keep = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None
Append = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]] | None  # the same, of a layer


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """The configuration of a decoder; saved next to its weights.

    encoding: the description of an encoding (build.py); a bare one counts tokens (`Flat`).
    n_kv_head: below n_head for grouped-query attention. mlp_width: hidden width of the SwiGLU.
    head_width: None: width / n_head.
    qk_norm: RMSNorm of each head of queries and keys before rotation ("both": 2302.05442, Qwen 3),
        or of keys only ("key"; kexue.fm/archives/9859).
    qkv_bias: projections with a bias, initialised to zero: "qkv" as in Qwen 2; "qk" helps RoPE to
        extrapolate (kexue.fm/archives/9577).
    """

    vocab_size: int
    width: int
    n_layer: int
    n_head: int
    mlp_width: int
    encoding: Annotated[Mapping[str, Any], Of((Encoding, Scheme))] = field(default_factory=dict)
    n_kv_head: int | None = None
    tied_head: bool = False
    norm_eps: float = 1e-5
    init_std: float = 0.02
    head_width: HeadWidth = None  # type: ignore[assignment]
    qk_norm: Literal["both", "key"] | None = None
    qkv_bias: Literal["qkv", "qk"] | None = None

    def __post_init__(self) -> None:
        rule = "a description such as {'_target_': 'bipe.encodings.ALiBi', 'n_head': 4}"
        if isinstance(self.encoding, nn.Module):
            rule += " (where Hydra instantiates this, with _recursive_: false)"
        require(isinstance(self.encoding, Mapping), rule, encoding=type(self.encoding))
        for name in ("vocab_size", "width", "n_layer", "n_head", "mlp_width", "head_width"):
            value = getattr(self, name)
            if not isinstance(value, int) and (name, value) != ("head_width", None):
                raise TypeError(f"{name} must be int, was: {value!r}")
            require_at_least(1, **{name: value})
        require_at_least(1, n_kv_head=self.n_kv_head)
        for name, choices in (("qk_norm", ("both", "key")), ("qkv_bias", ("qkv", "qk"))):
            value, rule = getattr(self, name), f"{', '.join(map(repr, choices))} or None"
            require(value in (None, *choices), rule, **{name: value})
        for name in ("norm_eps", "init_std"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), "finite and at least 0", **{name: value})
        divided = (("n_head", "n_kv_head"),)
        if self.head_width is None:
            divided = (("width", "n_head"), *divided)
        for name, part in divided:
            whole, parts = getattr(self, name), getattr(self, part)
            fits = parts is None or (parts >= 1 and whole % parts == 0)
            require(fits, f"a multiple of {part} ({parts})", **{name: whole})
        if self.head_width is None:
            object.__setattr__(self, "head_width", self.width // self.n_head)

    @property
    def kv_heads(self) -> int:
        return self.n_head if self.n_kv_head is None else self.n_kv_head

    @property
    def q_width(self) -> int:
        return self.n_head * self.head_width

    @property
    def kv_width(self) -> int:
        """The width of the keys of all heads, and of the values."""
        return self.kv_heads * self.head_width


def has_width_of_model(described: Mapping[Any, Any]) -> bool:
    name = str(described.get(TARGET))  # a Sandwich has waves, as many as it likes
    return name.startswith("bipe.") and not name.endswith(".Sandwich")


def _require_sizes(config: DecoderConfig) -> None:
    """Raise ValueError for an encoding that is described for a model of other sizes."""
    for path, node in nodes(config.encoding, "encoding"):
        for key in ("n_head", "head_width", *(["width"] if has_width_of_model(node) else [])):
            size, value = getattr(config, key), node.get(key)
            if value is not None and value != size:
                raise ValueError(f"{path}.{key} must be that of the model, {size}, was: {value}")


class Projection(nn.Linear):
    """A widening linear layer without bias that is fast on a CPU for few rows too.

    For up to eight rows, the CPU's library reads a tall W at a fraction of the memory's speed, but
    not in W x^T (32000 x 256 in float32, one core of AMD: 1.7, 2.3, 1.5 times as fast for 1, 4, 8
    rows; of Intel: 0.5, 1.0, 1.4).
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        few = (
            not torch.is_grad_enabled()
            and x.device.type == "cpu"
            and _LEAST * x.shape[-1] <= x.numel() <= _MOST * x.shape[-1]
            and x.dtype == self.weight.dtype
            and x.dtype in (torch.float32, torch.float64)
            and not torch.is_autocast_enabled("cpu")
        )
        if not few:
            return super().forward(x)
        rows = x.reshape(-1, x.shape[-1])
        # A single column would be a matrix-vector product, which is slow as well.
        columns = rows.repeat(2, 1) if len(rows) == 1 else rows
        return (self.weight @ columns.T).T[: len(rows)].reshape(*x.shape[:-1], -1)


def start_bias(project: nn.Linear) -> None:
    """Set the bias of a layer to zero, if it has one: only matrices are drawn."""
    if project.bias is not None:
        nn.init.zeros_(project.bias)


class SelfAttention(nn.Module):
    """Causal self-attention with rotated queries and keys."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.head_width = config.head_width
        biased, normed = config.qkv_bias or "", config.qk_norm
        self.query = nn.Linear(config.width, config.q_width, bias="q" in biased)
        self.key = nn.Linear(config.width, config.kv_width, bias="k" in biased)
        self.value = nn.Linear(config.width, config.kv_width, bias="v" in biased)
        self.output = nn.Linear(config.q_width, config.width, bias=False)
        for project in (self.query, self.key, self.value):
            start_bias(project)
        self.query_norm = self.key_norm = None
        if normed == "both":
            self.query_norm = nn.RMSNorm(config.head_width, eps=config.norm_eps)
        if normed is not None:
            self.key_norm = nn.RMSNorm(config.head_width, eps=config.norm_eps)

    def forward(
        self, x: Float[Tensor, "b t c"], rotation: Rotation | None, attend: Attention, keep: Keep
    ) -> Float[Tensor, "b t c"]:
        q, k, v = (self._heads(project(x)) for project in (self.query, self.key, self.value))
        q = q if self.query_norm is None else self.query_norm(q)
        k = k if self.key_norm is None else self.key_norm(k)
        if rotation is not None:
            q, k = rotation.query(q), rotation.key(k)
        if isinstance(attend, InLayer):
            k = attend.with_gates(k, x)
        if keep is not None:
            k, v = keep(k, v)
        # The kernels take one width; what values are padded with is cut off again.
        heads = attend(q, k, padded(v, to=q))[..., : self.head_width]
        return self.output(heads.transpose(1, 2).flatten(-2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # [b, h, t, d]


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)) (Shazeer, 2002.05202)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate = Projection(config.width, config.mlp_width)
        self.up = Projection(config.width, config.mlp_width)
        self.down = nn.Linear(config.mlp_width, config.width, bias=False)

    def forward(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b t c"]:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and SwiGLU, each after a norm and with a residual."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.attention = SelfAttention(config)
        self.mlp_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.mlp = SwiGLU(config)

    def forward(
        self, x: Float[Tensor, "b t c"], rotation: Rotation | None, attend: Attention, keep: Keep
    ) -> Float[Tensor, "b t c"]:
        x = x + self.attention(self.attention_norm(x), rotation, attend, keep)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    """Maps tokens and their positions to hidden states; `head` maps those to logits.

    attention: the path of attention (attention/dispatch.py). allowed: see `build`.
    recompute: keep only the input of each block for the backward pass, which computes the rest
        again (Chen et al., 1604.06174): less memory, a third more work.
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        attention: Path = "auto",
        recompute: bool = False,
        allowed: tuple[str, ...] = ALLOWED,
    ) -> None:
        super().__init__()
        require(isinstance(config, DecoderConfig), "DecoderConfig(...)", config=type(config))
        require(attention in PATHS, f"one of {', '.join(PATHS)}", attention=attention)
        self.config = config
        self.attention: Path = attention
        self.recompute = recompute
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        _require_sizes(config)
        with _constants_computed():
            kind = Encoding | Scheme
            self.scheme = as_scheme(build(config.encoding, kind, allowed=allowed, path="encoding"))
        for part in self.scheme.modules():
            if isinstance(part, Encoding):
                require_hook(part)
        self._counts_length = counts_length(self.scheme)
        self.levels = levels_of(self.scheme)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.head = Projection(config.width, config.vocab_size)
        if config.tied_head:
            self.head.weight = self.tokens.weight

    def forward(
        self,
        tokens: Int[Tensor, "b t"] | Float[Tensor, "b t c"],
        at: Positions,
        *,
        cache: Cache | Context | None = None,
        inputs: list[Tensor] | None = None,
    ) -> Float[Tensor, "b t c"]:
        """Return hidden states after the final norm; `cache` has the earlier tokens and gets these.

        inputs: gets the input of each block.
        tokens: ids, or vectors instead of their embeddings. With a `Context` as the cache, tokens
        are this device's part of rows that several devices share.
        """
        if not isinstance(at, Positions):
            raise TypeError(f"at must be Positions, was: {type(at).__name__}")
        if not isinstance(tokens, Tensor) or tokens.ndim not in (2, 3):
            said = [*tokens.shape] if isinstance(tokens, Tensor) else type(tokens).__name__
            raise ValueError(f"tokens must be a tensor [batch, time], was: {said}")
        if self.levels > 1 and len(at.levels) != self.levels:
            raise ValueError(too_few_levels(len(at.levels) or 1, self.levels))
        if at.token.shape[-1] != tokens.shape[1]:
            raise ValueError(
                f"positions must be those of the {tokens.shape[1]} tokens of a row, were of "
                f"{at.token.shape[-1]}"
            )
        if cache is not None and self._counts_length:
            at = cache.complete(at)
        x = self.tokens(tokens) if tokens.ndim == 2 else tokens
        x = self.scheme.embed(x, at)
        # After what may fail for an id, so that a cache holds no token that was not read.
        keys_at = at if cache is None else cache.extend(at)
        # By scheme: layers of one scheme share its rotation and its attention.
        prepared: dict[int, tuple[Rotation | None, Attention, Append]] = {}
        for index, block in enumerate(self.blocks):
            scheme = of_layer(self.scheme, index)
            if id(scheme) not in prepared:
                prepared[id(scheme)] = self._attention(scheme, at, keys_at, cache, dtype=x.dtype)
            rotation, attend, append = prepared[id(scheme)]
            if isinstance(attend, InLayer):
                attend = dataclasses.replace(attend, layer=index)
            keep = None if append is None else functools.partial(append, index)
            if inputs is not None:
                inputs.append(x)
            if self.recompute and torch.is_grad_enabled():
                # Nothing in a block is random, so no generator's state needs to be kept.
                alone = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
                x = alone(block, x, rotation, attend, keep)
            else:
                x = block(x, rotation, attend, keep)
        return self.norm(x)

    def _attention(
        self,
        scheme: Any,
        at: Positions,
        keys_at: Positions,
        cache: Cache | Context | None,
        *,
        dtype: torch.dtype,
    ) -> tuple[Rotation | None, Attention, Append]:
        """Return the rotation of queries and new keys, the attention, and where keys are kept."""
        append = None if cache is None else cache.append
        if isinstance(cache, Context):
            refuse_shared(scheme, path=self.attention)
        far = far_of(scheme)
        if far is not None:
            if far.forgets and isinstance(cache, Cache) and cache.drops:
                keys = cache.held(scheme, functools.partial(seen_later, scheme))
                keys_at, append = keys.positions, keys.append
            # Each pass rotates keys in its own way, so the cache keeps them unrotated.
            attend = pass_attention(scheme, q_at=at, k_at=keys_at, dtype=dtype, path=self.attention)
            return None, attend, append
        rotation = scheme.rotation(at)
        if rotation is not None:
            rotation = rotation.to(torch.promote_types(dtype, torch.float32))
        if isinstance(cache, Context):
            return rotation, cache.attention(scheme.bias, at, path=self.attention), append
        bias = scheme.bias(at, keys_at)
        if bias is not None and any(leaf.layered for leaf in bias.leaves()):
            own = InLayer(bias=bias, q_at=at, k_at=keys_at, path=self.attention, layer=0)
            return rotation, own, append
        attend = choose_attention(bias=bias, q_at=at, k_at=keys_at, path=self.attention)
        return rotation, attend, append

    @explained
    def logits(
        self, tokens: Int[Tensor, "b t"], at: Positions, *, cache: Cache | None = None
    ) -> Float[Tensor, "b t v"]:
        """Return all logits at once, for short inputs; loss.py computes long ones in chunks."""
        try:
            return self.head(self(tokens, at, cache=cache))
        except IndexError as error:  # of torch, which names neither the id nor the vocabulary
            low, high, most = int(tokens.min()), int(tokens.max()), self.config.vocab_size - 1
            if low >= 0 and high <= most:
                raise
            raise ValueError(f"tokens must be from 0 to {most}, were: {low} to {high}") from error

    @torch.no_grad()
    def init_weights(self, *, seed: int) -> None:
        """Fill each matrix with its `drawn_weights`; vectors keep their values.

        An encoding may override this (`Encoding.starts`).
        """
        parameters = dict(self.named_parameters())
        for name, values in self.drawn_weights(seed=seed):
            parameters[name].copy_(values)

    def drawn_weights(self, *, seed: int) -> Iterator[tuple[str, Tensor]]:
        """Draw each matrix from its own stream (seed, name): the same start under any encoding.

        One matrix at a time is in memory, so that a sharded model can keep a part of each.
        """
        stds = {
            f"{place}.{name}": std
            for place, part in self.named_modules()
            if isinstance(part, Encoding)
            for name, std in part.starts().items()
        }
        for name, parameter in self.named_parameters():
            std = stds.get(name, self.config.init_std if parameter.ndim > 1 else None)
            if std is None:
                continue
            # torch's CPU generator uses only 32 bits of a seed.
            stream = zlib.crc32(f"{seed}/{name}".encode())
            generator = torch.Generator().manual_seed(stream)
            # On the CPU, so that every device starts alike.
            values = torch.empty(parameter.shape, device="cpu").normal_(generator=generator)
            yield name, values * std


def _constants_computed() -> contextlib.AbstractContextManager[Any]:
    """Leave the meta device, if a model is built on it: constants of encodings need values."""
    on_meta = torch.get_default_device().type == "meta"
    return torch.device("cpu") if on_meta else contextlib.nullcontext()
