"""Small models and random batches for the laws of the bipe room.

SCHEMES holds every YAML of conf/encoding, flat and bilevel: a new file there is held to the laws
without a line here.
"""

from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

import conf
from bipe import Decoder, DecoderConfig, Positions
from bipe.build import build, find
from bipe.encodings.base import Encoding, Scheme, has_hook
from train.launch.composition import register_resolvers

WIDTH, N_HEAD = 48, 6
HEAD_WIDTH = WIDTH // N_HEAD


def target(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"bipe.encodings.{name}", **arguments}


def stretch(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"bipe.extension.{name}", "factor": 4.0, **arguments}


BARE = {
    "nope": target("NoPE"),
    "learned": target("Learned", width=WIDTH, length=24),
    "sinusoidal": target("Sinusoidal", width=WIDTH, scale=0.02),
    "learned_multiplied": target("Learned", width=WIDTH, length=24, combine="multiply"),
    "sinusoidal_spread": target("Sinusoidal", width=WIDTH, layout="spread", combine="multiply"),
    "complex_order": target("complex_order.ComplexOrder", width=WIDTH),
    "rope": target("RoPE", head_width=HEAD_WIDTH),
    "rope_interleaved": target("RoPE", head_width=HEAD_WIDTH, interleaved=True),
    "rope_yarn": target("RoPE", head_width=HEAD_WIDTH, stretch=stretch("YaRN", original_length=9)),
    "rope_partial": target("RoPE", head_width=HEAD_WIDTH, part=[0.0, 0.5]),
    "rope_low_still": target("RoPE", head_width=HEAD_WIDTH, pairs=[0.0, 0.75]),
    "xpos": target("xpos.XPos", head_width=HEAD_WIDTH, centre=20),
    "pope": target("pope.PoPE", head_width=HEAD_WIDTH, n_head=N_HEAD),
    "permuteformer": target("permuteformer.PermuteFormer", head_width=HEAD_WIDTH, n_head=N_HEAD),
    "alibi": target("ALiBi", n_head=N_HEAD),
    "alibi_x96": target("ALiBi", n_head=N_HEAD, multiplier=96.0),
}
SCHEMES: dict[str, dict[str, Any]] = {
    **{f"flat_{name}": target("Flat", encoding=bare) for name, bare in BARE.items()},
    **{
        f"bilevel_learned_{name}": target("Bilevel", intra=BARE["learned"], inter=bare)
        for name, bare in BARE.items()
    },
    "bilevel_rope_rope": target("Bilevel", intra=BARE["rope"], inter=BARE["rope"]),
    "bilevel_split_ropes": target(
        "Bilevel",
        intra=target("RoPE", head_width=HEAD_WIDTH, part=[0.0, 0.5]),
        inter=target("RoPE", head_width=HEAD_WIDTH, part=[0.5, 1.0]),
    ),
    "bilevel_hirope": target(
        "Bilevel",
        intra=target("RoPE", head_width=HEAD_WIDTH, pairs=[0.0, 0.5]),
        inter=target("RoPE", head_width=HEAD_WIDTH, pairs=[0.5, 1.0]),
    ),
    "gated": target("retrofit.GatedBiPE", intra=BARE["learned"], inter=BARE["rope"], step=5.0),
    "annealed": target(
        "retrofit.AnnealedBiPE", intra=BARE["learned"], inter=BARE["rope"], step=2.5
    ),
    "bilevel_alibi_alibi": target("Bilevel", intra=BARE["alibi"], inter=BARE["alibi_x96"]),
    "multilevel_split_ropes": target(
        "multilevel.Multilevel",
        encodings={
            "token": target("RoPE", head_width=HEAD_WIDTH, pairs=[0.0, 0.25]),
            "sentence": target("RoPE", head_width=HEAD_WIDTH, pairs=[0.25, 0.5]),
            "paragraph": target("RoPE", head_width=HEAD_WIDTH, pairs=[0.5, 1.0]),
        },
    ),
    "multilevel_in_one_layer": target(
        "base.Layers",
        schemes={
            "flat": target("Flat", encoding=BARE["rope"]),
            "multilevel": target(
                "multilevel.Multilevel",
                encodings={
                    "token": BARE["sinusoidal"],
                    "sentence": BARE["learned"],
                    "paragraph": BARE["alibi"],
                },
            ),
        },
        pattern=["flat", "multilevel"],
    ),
    "chain": target(
        "Chain",
        links=[
            target("Flat", encoding=BARE["alibi"]),
            target("Bilevel", intra=BARE["sinusoidal"], inter=BARE["rope"]),
        ],
    ),
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
        f"flat_{name}": target("Flat", encoding=description),
        f"bilevel_{name}": target("Bilevel", intra=BARE["learned"], inter=description),
    }
    if has_hook(kind, "embed"):
        found[f"intra_{name}"] = target("Bilevel", intra=description, inter=BARE["rope"])
    return found


CONFIGURED = configured()
for _name, _description in CONFIGURED.items():
    SCHEMES.update(forms_of(_name, _description))
# Biases of every kind, in one of two layers and under one softmax: a row, gates, a table, content
# and its values.
_KINDS = ("alibi", "fox", "t5", "shaw")
for _name in ("rope", *_KINDS):
    SCHEMES[f"layers_{_name}"] = target(
        "base.Layers",
        schemes={
            "one": target("Flat", encoding=target("NoPE")),
            "two": target("Bilevel", intra=target("NoPE"), inter=CONFIGURED[_name]),
        },
        pattern=["one", "two"],
    )
SCHEMES["chain_of_kinds"] = target(
    "Chain",
    links=[
        target("Bilevel", intra=target("NoPE"), inter=CONFIGURED[name])
        if name in ("t5", "shaw")
        else target("Flat", encoding=CONFIGURED[name])
        for name in _KINDS
    ],
)
SCHEMES["chain_of_gates"] = target(
    "Chain", links=[target("Flat", encoding=CONFIGURED[name]) for name in ("fox", "cable", "alibi")]
)
SCHEMES["chain_of_gates_and_tables"] = target(
    "Chain", links=[target("Flat", encoding=CONFIGURED[name]) for name in ("fox", "t5")]
)
# One form of each encoding, and all that combine several, for laws that no id takes part in.
ONE_EACH = [name for name in SCHEMES if f"bilevel_{name.removeprefix('flat_')}" not in SCHEMES]
ONE_EACH = [name for name in ONE_EACH if not name.startswith(("bilevel_learned_", "intra_"))]
FLAT = {name: scheme for name, scheme in SCHEMES.items() if scheme["_target_"].endswith(".Flat")}


def bare_encoding(name: str) -> Encoding:
    return build(BARE[name])


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
