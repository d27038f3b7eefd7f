"""Every YAML of conf/ is composed, checked against the signatures, and built as far as it goes
without a corpus, the hub or an accelerator."""

import functools
import shutil
import subprocess
from pathlib import Path

import lightning
import pytest
import torch
import yaml
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from lightning.pytorch.loggers import Logger
from omegaconf import OmegaConf

import conf
from bipe import Decoder, Positions
from bipe.attention import PATHS
from bipe.build import ALLOWED, build, planned
from bipe.extension import extend_config
from bipe.layouts import to_official
from segmenters import Segmenter
from train.config import Config, encoding_name, register_resolvers, slug
from train.config.decoders import decoder_of
from train.data.preparing.source import Corpus
from train.data.reading.documents import Reader
from train.errors import ConfigError

ROOT = Path(conf.__file__).parent
CHOICES = {
    group.name: sorted(path.stem for path in group.glob("*.yaml"))
    for group in sorted(ROOT.iterdir())
    if group.is_dir() and group.name != "__pycache__"
}
# Groups that fill a place inside another group.
INSIDE = {
    "segmenter": "segmenter@corpus.sources.text.segmenter",
    "tokenizer": "tokenizer@corpus.tokenizer",
}
# Groups whose choices are composed by tests of their own below, or that a command completes.
APART = {"command", "task", "encoding", "segmenter", "corpus", "schedule", "trainer", "rows"}
APART |= {"logger", "experiment"}
EXPERIMENTS = CHOICES["experiment"]
RETROFITS = ("gated", "homotopy", "split", "swap")
PILE = [name for name in EXPERIMENTS if name.startswith("pile_151m_")]
NAMES = {  # of one encoding of each make
    "alibi": "ALiBi",
    "bipe_alibi": "BiPE-ALiBi",
    "bipe_rope": "BiPE-RoPE",
    "flat_below": "Layers(RoPE, BiPE-RoPE)",
    "hirope": "Bilevel(p-RoPE, p-RoPE)",
    "hirope_window": "HiRoPE",
    "kerple_power": "Kerple Power",
    "multilevel": "Multilevel(Learned, Partial RoPE, ALiBi)",
    "rope": "RoPE",
    "fox_segments": "Chain(FoX, ALiBi, Bilevel(RoPE, FoX))",
    "rope_separators": "RoPE + Separators",
    "swan": "Layers(RoPE + Window, NoPE + LogN)",
}


@pytest.fixture(scope="module", autouse=True)
def hydra():
    GlobalHydra.instance().clear()
    register_resolvers()
    with initialize_config_module("conf", version_base="1.3"):
        yield


def composed(*words):
    return OmegaConf.to_container(compose("config", overrides=list(words)), resolve=True)


@functools.cache
def study(*words):
    made = Config.from_config(composed(*words))
    made.check()
    return made


@functools.cache
def tiny(encoding):
    """A small study; only an encoding with defaults of its own needs Hydra again."""
    words = ["model=tiny", "row_length=16"]
    node = OmegaConf.load(ROOT / "encoding" / f"{encoding}.yaml")
    if "defaults" in node:
        return study(f"encoding={encoding}", *words)
    whole = compose("config", overrides=words)
    OmegaConf.update(whole, "encoding", node, merge=False)
    return Config.from_config(whole)


@pytest.mark.parametrize(
    "choice",
    [f"{group}={name}" for group in CHOICES if group not in APART for name in CHOICES[group]],
)
def test_every_choice_passes_the_check(choice):
    group, _, name = choice.partition("=")
    words = ["corpus=text", f"{INSIDE[group]}={name}"] if group in INSIDE else [choice]
    assert study(*words).row_length >= 1


def test_the_defaults_of_a_command_come_before_what_is_asked_for():
    made = study("command=extend", "data=x")
    assert (made.rows.packing, made.steps, made.schedule["steps"]) == ("long_first", 500, 500)
    made = study("command=extend", "experiment=smoke", "rows=concat", "data=x", "steps=0")
    assert (made.rows.packing, made.steps, made.row_length) == ("concat", 0, 64)


def runs(decoder):
    """Compute the logits of rows of several segments."""
    marks = torch.zeros(2, 16, dtype=torch.uint8)
    marks[:, ::5] = 2
    tokens = torch.randint(31, (2, 16), generator=torch.Generator().manual_seed(0))
    at = Positions.from_marks(marks, levels=decoder.levels)
    assert decoder.logits(tokens, at).shape == (2, 16, 31)


@pytest.mark.parametrize("encoding", CHOICES["encoding"])
def test_every_encoding_makes_a_model_that_runs(encoding):
    made = tiny(encoding)
    runs(Decoder(decoder_of(made, vocab_size=31)))
    assert encoding not in NAMES or encoding_name(made.encoding) == NAMES[encoding]


def test_each_encoding_has_a_run_of_its_own_in_a_comparison():
    flat = [name for name in CHOICES["encoding"] if name != "bilevel"]  # that is bipe_rope
    names = {name: slug(encoding_name(tiny(name).encoding)) for name in flat}
    assert len(set(names.values())) == len(names)
    demo = study("experiment=demo")
    for name in ("rope", "fox_segments", "segatron"):
        made = study("experiment=compare", f"encoding={name}", "seed=1")
        assert (made.name, made.rows) == (f"{names[name]}_1", demo.rows)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_comparison_of_encodings_leaves_none_out():
    flat, bilevel = listed_by_make("ENCODINGS"), listed_by_make("LEVELS")
    several = {name for name in CHOICES["encoding"] if tiny(name).coarser > 0}  # demo's has one
    assert set(flat) == {*CHOICES["encoding"]} - {"bilevel"} - several
    assert len(set(flat)) == len(flat) and several == {"multilevel", "segatron", "segatron_xl"}
    assert bilevel == [name for name in flat if name in bilevel]
    whole = composed("experiment=compare", "encoding=bilevel")
    for name in flat:
        encoding = whole["encoding"] | {"inter": tiny(name).encoding}
        try:
            Config.from_config(whole | {"encoding": encoding}).check("encoding")
        except ConfigError as error:
            assert "subclass of Encoding" in str(error)
            assert name not in bilevel, f"Makefile: LEVELS must leave out {name}: {error}"
        else:
            assert name in bilevel, f"Makefile: LEVELS leaves out {name}"


def listed_by_make(variable):
    """Return the words of a variable of the Makefile, as make expands it."""
    show = ["make", "-s", "--eval", f"show: ; @echo $({variable})", "show"]
    return subprocess.run(
        show, cwd=ROOT.parent, check=True, capture_output=True, text=True
    ).stdout.split()


@pytest.mark.parametrize("name", RETROFITS)
def test_every_retrofit_makes_a_model_that_runs(name):
    made = study("command=retrofit", f"stretch={name}", "data=x", "row_length=16")
    assert made.rows.packing == "concat"
    seen = {"token": {"p99.9": 15}, "segment": {"p99.9": 3}}
    base = decoder_of(tiny("rope"), vocab_size=31)
    done = extend_config(base, made.stretch, notes={"row_length": 16, "positions": seen})
    runs(Decoder(done.config))


@pytest.mark.parametrize("encoding", ["rope", "bipe_rope"])
@pytest.mark.parametrize("name", sorted({*CHOICES["stretch"]} - {"none", *RETROFITS}))
def test_every_stretch_makes_a_model_that_runs(name, encoding):
    node = yaml.safe_load((ROOT / "stretch" / f"{name}.yaml").read_text())
    assert planned(node, allowed=ALLOWED)[0] == []
    if name == "longrope":
        node |= {"short_factor": [1.0] * 4, "long_factor": [1.0, 1.5, 2.0, 16.0]}
    made = tiny(encoding)
    seen = {"counted": 9, "maximum": 9, "p99": 6, "p99.9": 7}
    notes = {"row_length": 16, "positions": {"segment": seen}}
    done = extend_config(decoder_of(made, vocab_size=31), node, notes=notes)
    decoder = Decoder(done.config)
    rope = decoder.scheme.encoding if encoding == "rope" else decoder.scheme.inter
    if "_partial_" in node:
        tokens = encoding == "rope" or node.get("unit") == "tokens"
        assert done.reports[0].original.length == (16 if tokens else 8)
    assert (rope.stretch is None) == (decoder.scheme.far is not None)
    changed = node["_target_"].rpartition(".")[2]
    assert encoding_name(done.config.encoding) == f"{NAMES[encoding]} + {changed}"
    runs(decoder)


def test_levels_are_chosen_and_options_of_the_model_reach_the_encoding():
    made = study("encoding=bilevel", "encoding@encoding.intra=sinusoidal",
                 "encoding@encoding.inter=alibi")  # fmt: skip
    assert encoding_name(made.encoding) == "Bilevel(Sinusoidal, ALiBi)"
    Decoder(decoder_of(made, vocab_size=31))
    words = ["model.head_width=20", "model.qk_norm=both", "model.qkv_bias=qk", "model.n_kv_head=2"]
    for encoding in ("rope", "pope", "permuteformer"):
        made = study("model=tiny", f"encoding={encoding}", *(f"++{word}" for word in words))
        config = decoder_of(made, vocab_size=31)
        assert config.head_width == config.encoding["head_width"] == 20
        Decoder(config)


BUILT = {  # in its place, what a choice makes, and that it does its work
    "schedule": lambda made, name: all(0 < made(step) <= 1 for step in (0, 99, 150)),
    "corpus": lambda made, name: isinstance(made, Corpus) and hasattr(made.tokenizer, "build"),
    "task": lambda made, name: made.name == name and made.output_tokens >= 1,
    "logger": lambda made, name: [*made] == [name] * (name != "none"),
}


@pytest.mark.parametrize("group", BUILT)
def test_every_choice_is_built(group):
    for name in CHOICES[group]:
        words = ["command=scrolls", "data=x"] if group == "task" else ["steps=300"]
        section = getattr(study(*words, f"{group}={name}"), group)
        made = section.built if group != "logger" else {k: v.built for k, v in section.items()}
        assert BUILT[group](made, name), name
        for source in made.sources.values() if group == "corpus" else ():
            assert isinstance(source.documents, Reader) and isinstance(source.segmenter, Segmenter)
            assert source.segmenter.cut("1+2 = 3\n")[-1] == 8
        assert group != "logger" or all(issubclass(each.func, Logger) for each in made.values())
    assert list(study("logger=[wandb,tensorboard]").logger) == ["wandb", "tensorboard"]


@pytest.mark.parametrize("trainer", CHOICES["trainer"])
def test_every_trainer_is_built_on_a_cpu(trainer, tmp_path):
    words = ["trainer.accelerator=cpu", "trainer.devices=1", "trainer.precision=32-true"]
    plain = {"logger": False, "enable_checkpointing": False, "max_steps": 1}
    built = study(f"trainer={trainer}", *words).trainer.built(default_root_dir=tmp_path, **plain)
    assert isinstance(built, lightning.Trainer) and built.world_size == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", CHOICES["rows"])
def test_every_way_of_packing_is_one_that_the_data_module_knows(rows):
    made = study(f"rows={rows}")
    assert made.rows.packing == {"examples": "single", "chains": "best_fit"}.get(rows, rows)
    assert made.rows.micro_batch == "auto"
    assert isinstance(made.optimizer.built(torch.nn.Linear(2, 2).parameters()), torch.optim.AdamW)


def recipe(made):
    """What a paper says of its training."""
    return (made.row_length, made.steps, made.rows.global_batch, made.optimizer["lr"],
            made.optimizer["weight_decay"], made.schedule["_target_"].rpartition(".")[2],
            made.schedule["warmup"], made.schedule["steps"])  # fmt: skip


@pytest.mark.parametrize("words", [("experiment=scrolls_paper",), ("command=scrolls",)])
def test_the_recipe_of_scrolls_is_that_of_the_paper(words):
    made = study(*{"command=scrolls": None, **dict.fromkeys(words)}, "task=qmsum", "data=x")
    assert recipe(made) == (8192, 5000, 64, 1e-5, 0.01, "linear", 50, 5000)
    assert (made.validate_every, made.rows.prompt_level, made.rows.packing) == (50, 1, "single")
    assert (made.scrolls.select, made.scrolls.beams) == ("best", 1)


@pytest.mark.parametrize("name", ["rope", "bipe_rope"])
def test_the_yarn_experiments_hold_the_recipe_of_the_paper(name):
    made = study("command=extend", f"experiment=yarn_pile_{name}", "data=x")
    assert made.checkpoint == f"runs/pile_151m/{name}"
    assert (made.stretch["_target_"], made.stretch["factor"]) == ("bipe.extension.YaRN", 16)
    assert (made.steps, made.row_length, made.extend.unit) == (500, 4096, None)
    assert made.rows.packing == "long_first"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_what_an_experiment_evaluates_is_in_its_corpus(experiment):
    made = study(f"experiment={experiment}")
    sources = set(made.corpus["sources"])
    assert set(made.rows.sources or {}) <= sources
    assert set(made.evaluate.sources or []) <= sources
    arithmetic = made.evaluate.arithmetic
    assert made.evaluate.probing.source in {None, *sources}
    assert arithmetic is None or arithmetic.source in {None, *sources}


@pytest.mark.parametrize("experiment", PILE)
def test_the_pile_experiments_hold_the_recipe_of_the_paper(experiment):
    made, arm = study(f"experiment={experiment}"), experiment.removeprefix("pile_151m_")
    assert slug(encoding_name(made.encoding)) == arm
    config = decoder_of(made, vocab_size=32000)
    assert (config.n_layer, config.n_head, config.width, config.mlp_width) == (12, 12, 768, 3072)
    assert recipe(made) == (1024, 500_000, 256, 1e-4, 0.01, "linear", 10_000, 500_000)
    assert (made.clip, config.tied_head) == (1.0, False)
    assert made.corpus["sources"]["pile"]["documents"]["path"] == "monology/pile-uncopyrighted"
    factor = made.schedule.built
    assert (factor(10_000), factor(255_000)) == (1.0, pytest.approx(0.5))
    with torch.device("meta"):
        state = to_official(Decoder(config))
    blocks, outside = 12 * (4 * 768**2 + 3 * 768 * 3072 + 2 * 768), 768 + 2 * 32000 * 768
    table = 1024 * 768 if arm.startswith("bipe") else 0
    count = {False: 162_417_408, True: 163_203_840}[bool(table)]
    assert sum(tensor.numel() for tensor in state.values()) == count == blocks + outside + table
    assert ("model.embeds.0.weight" in state) == bool(table)


def test_the_pile_encodings_have_the_constants_of_the_release():
    rope, bipe_rope, bipe_alibi = (
        study(f"experiment=pile_151m_{name}").encoding
        for name in ("rope", "bipe_rope", "bipe_alibi")
    )
    assert len(PILE) == 4 and rope["theta"] == bipe_rope["inter"]["theta"] == 10000.0
    assert bipe_rope["intra"]["length"] == 1024
    assert bipe_alibi["inter"]["multiplier"] == 96.0
    expected = [48, 24, 12, 6, 3, 1.5, 0.75, 0.375, 67.88, 33.94, 16.97, 8.49]
    slopes = build(bipe_alibi["inter"]).slopes.tolist()
    assert slopes == pytest.approx(expected, abs=0.01)


def test_the_paths_of_attention_are_listed():
    text = (ROOT / "config.yaml").read_text(encoding="utf-8")
    comment = text.partition("\nattention: ")[2].partition("\ncompile: ")[0]
    listed = [word.strip() for word in comment.partition("#")[2].replace("#", "").split("|")]
    assert listed == [*PATHS]
