"""Small models and random batches for the laws of the bipe room.

SCHEMES holds every YAML of conf/encoding, flat and bilevel: a new file there is held to the laws
without a line here.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

import conf
from bipe import Cache, Decoder, DecoderConfig, Positions
from bipe.build import find
from bipe.encodings.base import Encoding, Scheme, has_hook
from train.config import register_resolvers

WIDTH, N_HEAD = 48, 6
HEAD_WIDTH = WIDTH // N_HEAD


def target(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"bipe.encodings.{name}", **arguments}


def stretch(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"bipe.extension.{name}", "factor": 4.0, **arguments}


def far(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"bipe.extension.{name}", **arguments}


def rope(**arguments: Any) -> dict[str, Any]:
    return target("RoPE", head_width=HEAD_WIDTH, **arguments)


def layers(**schemes: dict[str, Any]) -> dict[str, Any]:
    return target("base.Layers", schemes=schemes, pattern=[*schemes])


def levels(**encodings: dict[str, Any]) -> dict[str, Any]:
    return target("multilevel.Multilevel", encodings=encodings)


def flat(encoding: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return target("Flat", encoding=encoding, **arguments)


def chain(*links: dict[str, Any]) -> dict[str, Any]:
    return target("Chain", links=list(links))


def bilevel(intra: dict[str, Any], inter: dict[str, Any]) -> dict[str, Any]:
    return target("Bilevel", intra=intra, inter=inter)


BARE = {
    "nope": target("NoPE"),
    "learned": target("Learned", width=WIDTH, length=24),
    "sinusoidal": target("Sinusoidal", width=WIDTH, scale=0.02),
    "learned_multiplied": target("Learned", width=WIDTH, length=24, combine="multiply"),
    "sinusoidal_spread": target("Sinusoidal", width=WIDTH, layout="spread", combine="multiply"),
    "complex_order": target("complex_order.ComplexOrder", width=WIDTH),
    "rope": rope(),
    "rope_interleaved": rope(interleaved=True),
    "rope_yarn": rope(stretch=stretch("YaRN", original_length=9)),
    "rope_partial": rope(part=[0.0, 0.5]),
    "rope_low_still": rope(pairs=[0.0, 0.75]),
    "xpos": target("xpos.XPos", head_width=HEAD_WIDTH, centre=20),
    "pope": target("pope.PoPE", head_width=HEAD_WIDTH, n_head=N_HEAD),
    "permuteformer": target("permuteformer.PermuteFormer", head_width=HEAD_WIDTH, n_head=N_HEAD),
    "alibi": target("ALiBi", n_head=N_HEAD),
    "alibi_x96": target("ALiBi", n_head=N_HEAD, multiplier=96.0),
}
_MOVED = {"intra": BARE["learned"], "inter": BARE["rope"]}
SCHEMES: dict[str, dict[str, Any]] = {
    **{f"flat_{name}": flat(bare) for name, bare in BARE.items()},
    **{f"bilevel_learned_{name}": bilevel(BARE["learned"], bare) for name, bare in BARE.items()},
    "bilevel_rope_rope": bilevel(BARE["rope"], BARE["rope"]),
    "bilevel_split_ropes": bilevel(rope(part=[0.0, 0.5]), rope(part=[0.5, 1.0])),
    "bilevel_hirope": bilevel(rope(pairs=[0.0, 0.5]), rope(pairs=[0.5, 1.0])),
    "gated": target("retrofit.GatedBiPE", **_MOVED, step=5.0),
    "annealed": target("retrofit.AnnealedBiPE", **_MOVED, step=2.5),
    "bilevel_alibi_alibi": bilevel(BARE["alibi"], BARE["alibi_x96"]),
    "multilevel_split_ropes": levels(
        token=rope(pairs=[0.0, 0.25]),
        sentence=rope(pairs=[0.25, 0.5]),
        paragraph=rope(pairs=[0.5, 1.0]),
    ),
    "multilevel_in_one_layer": layers(
        flat=flat(BARE["rope"]),
        multilevel=levels(
            token=BARE["sinusoidal"], sentence=BARE["learned"], paragraph=BARE["alibi"]
        ),
    ),
    "chain": chain(flat(BARE["alibi"]), bilevel(BARE["sinusoidal"], BARE["rope"])),
}


N_LAYER = 2
LEVELS = 2  # of random marks: segments, and units of segments
# Numbers of the configuration that encodings refer to.
SIZES = {"model.width": WIDTH, "model.n_head": N_HEAD, "model.n_layer": N_LAYER, "row_length": 24}


def configured() -> dict[str, dict[str, Any]]:
    """What each YAML of conf/encoding describes, in a small model: `encoding=name`."""
    register_resolvers()
    names = [path.stem for path in sorted((Path(conf.__file__).parent / "encoding").glob("*.yaml"))]
    words = [f"+encoding@all.{name}={name}" for name in names]
    words += [f"+{key}={value}" for key, value in SIZES.items()]
    with initialize_config_module("conf", version_base=None):
        return OmegaConf.to_container(compose(overrides=words), resolve=True)["all"]


def kind_of(description: dict[str, Any]) -> type:
    return find(description["_target_"], Encoding | Scheme)


def forms_of(name: str, description: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A scheme as it is; an encoding flat and on the levels of BiPE that it has hooks for."""
    kind = kind_of(description)
    if not issubclass(kind, Encoding):
        return {name: description}
    found = {
        f"flat_{name}": flat(description),
        f"bilevel_{name}": bilevel(BARE["learned"], description),
    }
    if has_hook(kind, "embed"):
        found[f"intra_{name}"] = bilevel(description, BARE["rope"])
    return found


CONFIGURED = configured()
for _name, _description in CONFIGURED.items():
    SCHEMES.update(forms_of(_name, _description))
# Biases of every kind, in one of two layers and under one softmax: a row, gates, a table, content
# and its values.
_FLAT = {name: flat(CONFIGURED[name]) for name in ("alibi", "fox", "cable", "t5")}
_SEGMENTS = {name: bilevel(BARE["nope"], each) for name, each in CONFIGURED.items()}
for _name in ("rope", "alibi", "fox", "t5", "shaw"):
    SCHEMES[f"layers_{_name}"] = layers(one=flat(BARE["nope"]), two=_SEGMENTS[_name])
SCHEMES["chain_of_kinds"] = chain(_FLAT["alibi"], _FLAT["fox"], _SEGMENTS["t5"], _SEGMENTS["shaw"])
SCHEMES["chain_of_gates"] = chain(_FLAT["fox"], _FLAT["cable"], _FLAT["alibi"])
SCHEMES["chain_of_gates_and_tables"] = chain(_FLAT["fox"], _FLAT["t5"])
# Each description once, and the options of an encoding on one level: what laws are checked with.
_LAST = {json.dumps(each): name for name, each in SCHEMES.items()}
LAWFUL = ["bilevel_learned_rope_yarn"]
LAWFUL += [name for name in _LAST.values() if not name.startswith("bilevel_learned_")]
# One form of each encoding, and all that combine several, for laws that no id takes part in.
ONE_EACH = [name for name in LAWFUL if f"bilevel_{name.removeprefix('flat_')}" not in SCHEMES]
ONE_EACH = [name for name in ONE_EACH if not name.startswith(("bilevel_learned_", "intra_"))]
FLAT = {name: scheme for name, scheme in SCHEMES.items() if scheme["_target_"].endswith(".Flat")}


def small_decoder(scheme: str, *, seed: int = 0, **overrides: Any) -> Decoder:
    config = {
        "vocab_size": 61,
        "width": WIDTH,
        "n_layer": N_LAYER,
        "n_head": N_HEAD,
        "mlp_width": 64,
        "init_std": 0.2,
        "encoding": SCHEMES[scheme],
    }
    how = {name: overrides.pop(name) for name in ("attention", "recompute") if name in overrides}
    model = Decoder(DecoderConfig(**{**config, **overrides}), **how)
    model.init_weights(seed=seed)
    return model


def random_marks(batch: int, time: int, *, seed: int, documents: float = 0.05) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand(batch, time, generator=generator)
    marks = (draw < 0.2).to(torch.uint8) << 1 | (draw < 0.08).to(torch.uint8) << 2
    return torch.where(draw < documents, 7, marks)


def positions_of(marks: torch.Tensor, **how: Any) -> Positions:
    """Positions of all levels that some scheme reads."""
    return Positions.from_marks(marks, levels=LEVELS, **how)


def random_batch(batch: int, time: int, *, seed: int, documents: float = 0.05):
    """Tokens and positions of packed rows."""
    generator = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(0, 61, (batch, time), generator=generator)
    return tokens, positions_of(random_marks(batch, time, seed=seed, documents=documents))


def close(ours: torch.Tensor, theirs: torch.Tensor, atol: float = 1e-9) -> None:
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=atol)


def row_of(batch: int, time: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and marks of rows that are one document each."""
    tokens, _ = random_batch(batch, time, seed=seed, documents=0.0)
    return tokens, random_marks(batch, time, seed=seed, documents=0.0)


def cached_logits(model, tokens, marks, division, cache, *, padding=None) -> torch.Tensor:
    """The logits of tokens that are read with a cache in pieces of these sizes."""
    pieces, start = [], 0
    for size in division:
        part = slice(start, start + size)
        hidden = None if padding is None else padding[:, part]
        at = cache.next(marks[:, part], padding=hidden, levels=LEVELS)
        pieces.append(model.logits(tokens[:, part], at, cache=cache))
        start += size
    return torch.cat(pieces, 1)


@torch.no_grad()
def cached_equals_uncached(model: Decoder, division: list[int], **how: Any) -> Cache:
    """In float64, of rows that are one document each; return the cache."""
    tokens, marks = row_of(2, sum(division), seed=3)
    full = model.double().logits(tokens, positions_of(marks, packed=False))
    cache = Cache(batch=2, grows=True, **how)
    close(cached_logits(model, tokens, marks, division, cache), full)
    return cache


@torch.no_grad()
def padding_is_not_read(model: Decoder, division: list[int], *, document: int = 0) -> None:
    """Of a second row behind padding; from `document` on, rows may hold another one."""
    tokens, marks = row_of(2, sum(division), seed=4)
    marks[:, document] = 3
    padding = torch.zeros_like(tokens, dtype=torch.bool)
    padding[1, :11] = True
    cache = Cache(batch=2, capacity=sum(division))
    ours = cached_logits(model.double(), tokens, marks, division, cache, padding=padding)
    for row, own in ((slice(1), slice(None)), (slice(1, 2), slice(11, None))):
        alone = model.logits(tokens[row, own], positions_of(marks[row, own]))
        close(ours[row, own], alone)


def documents_of(at: Positions) -> Iterator[tuple[int, torch.Tensor, Positions]]:
    """The row, the place and the positions of each document on its own."""
    for row in range(len(at.document)):
        for document in at.document[row].unique():
            here = at.document[row] == document
            own = at.map(lambda ids, row=row, here=here: ids[row : row + 1, here])
            yield row, here, dataclasses.replace(own, document=torch.zeros_like(own.document))


@torch.no_grad()
def packed_equals_alone(model: Decoder, *, time: int = 40, seed: int = 1) -> None:
    tokens, at = random_batch(2, time, seed=seed)
    packed = model.double().eval()(tokens, at)
    for row, here, alone in documents_of(at):
        close(packed[row, here], model(tokens[row : row + 1, here], alone)[0])
