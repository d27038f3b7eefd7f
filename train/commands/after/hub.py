"""Models on the Hugging Face Hub: fetched or uploaded only where a command names them."""

import re
from pathlib import Path

from train.errors import ConfigError

SCHEME = "hf://"
_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# No pickles: weights are safetensors.
_FILES = ("*.safetensors", "*.json", "tokenizer.model", "*.tiktoken", "README.md", "LICENSE*")


def fetched(place: str) -> str:
    """Return the folder of a model, hf://OWNER/NAME[@REVISION]; ConfigError if it is not to be had.

    A model that the cache holds is taken from there if the hub cannot be reached.
    """
    name, _, revision = place.removeprefix(SCHEME).partition("@")
    require_name(name, place)
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(name, revision=revision or None, allow_patterns=[*_FILES])
    except (OSError, ValueError) as fault:  # those of the hub and of the connection are OSError
        raise ConfigError(
            f"{place} could not be downloaded ({_line(fault)}): name a downloaded folder, or run "
            "`hf auth login` if the model is not public"
        ) from None
    if not any(Path(folder).glob("*.safetensors")):
        raise ConfigError(
            f"{place} has no weights as *.safetensors, the only format that is read: convert them "
            "first"
        )
    return folder


def uploaded(folder: Path, name: str) -> str:
    """Upload a folder to a private repository, new or one's own, and return its address."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        repository = api.create_repo(name, private=True, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload by bipe")
    except (OSError, ValueError) as fault:
        raise ConfigError(
            f"push={name} failed ({_line(fault)}); {folder} is complete: run `hf auth login`, "
            f"then `hf upload {name} {folder}`"
        ) from None
    return str(repository)


def require_name(name: str, said: str) -> None:
    """Raise ConfigError for what is no OWNER/NAME; said: how it was asked for."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{said} must name a model on the Hugging Face Hub as OWNER/NAME")


def _line(fault: Exception) -> str:
    return str(fault).strip().partition("\n")[0] or type(fault).__name__
