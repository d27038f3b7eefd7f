"""`bipe prepare`: documents -> segments -> tokens and marks on disk, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.data.preparing.prepare import Prepared
from train.data.store import folder
from train.errors import ConfigError, DataError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from train.config import Config

_LIGHT = ("train.", "segmenters.")  # what is imported without torch


def prepare_study(study: Config) -> Prepared | None:
    """Prepare the corpus of a study; print what came of it, or with dry_run what would."""
    from bipe.build import build

    if not isinstance(study.data, str):
        raise ConfigError(f"data must be one folder to prepare, was: {study.data}")
    options: dict[str, Any] = {
        "out": Path(study.data),
        "if_exists": study.if_exists,
        "limit": study.limit,
        "engine": build(study.engine, allowed=study.allowed),
    }
    if study.dry_run:
        from train.data.preparing.dry_run import describe

        print(describe(**build(study.corpus, allowed=study.allowed).keywords, **options))
        return None
    return _tell(study.call("corpus", **options))


def prepare_again(config: DictConfig) -> bool:
    """Tell of a data set that stands there already; whether one does, as it is asked for.

    Only the keys of the corpus are looked at: torch, which the check of all others loads, takes
    longer than everything else that there is to do.
    """
    from hydra.utils import instantiate
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        out = Path(config.data)
        if config.if_exists != "resume" or config.dry_run or not (out / folder.MANIFEST).exists():
            return False
        corpus = OmegaConf.to_container(config.corpus, resolve=True)
        if not all(str(target).startswith(_LIGHT) for target in _targets(corpus)):
            return False
        call = instantiate(corpus, _convert_="all")
        _tell(call(out=out, if_exists="resume", limit=config.limit, progress=False))
    except DataError:
        raise
    except (OmegaConfBaseException, TypeError, ValueError, AttributeError):
        return False  # the check finds better words for what is wrong
    except Exception as fault:
        if type(fault).__module__.startswith("hydra"):
            return False
        raise
    return True


def _targets(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "_target_")
        for value in node.values():
            yield from _targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from _targets(value)


def _tell(prepared: Prepared) -> Prepared:
    """Print what came of a preparation."""
    state = "is there already" if prepared.kept else "is ready"
    print(f"{prepared.folder} {state}:")
    for name, source in prepared.manifest["sources"].items():
        counts = {
            key: sum(split[key] for split in source["splits"].values())
            for key in ("documents", "tokens", "segments")
        }
        print(
            f"  {name}: {counts['documents']:,} documents, {counts['tokens']:,} tokens, "
            f"{counts['tokens'] / max(1, counts['segments']):.1f} tokens a segment"
        )
    return prepared
