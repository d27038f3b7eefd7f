"""The model that a configuration describes: its sizes and its encoding, before any weights."""

import torch

from bipe.decoder import DecoderConfig
from bipe.encodings.base import as_scheme, levels_of
from bipe.positions import Positions
from train.config import Config
from train.errors import ConfigError, as_config_error


def decoder_of(config: Config, *, vocab_size: int) -> DecoderConfig:
    """Return the model for data of a given vocabulary; ConfigError for keys that conflict."""
    if "encoding" in config.model:
        raise ConfigError("model.encoding cannot be set; set encoding instead")
    sizes = {key: value for key, value in config.model.items() if not key.startswith("_")}
    size = sizes.setdefault("vocab_size", vocab_size)
    if size < vocab_size:
        raise ConfigError(
            f"model.vocab_size must be at least that of the data ({vocab_size}), was: {size}"
        )
    built = config.encoding.built  # so that an error names its key
    with as_config_error("encoding: "), torch.no_grad():  # rotations of two levels may not combine
        scheme = as_scheme(built)
        nothing = torch.zeros(1, 1, dtype=torch.uint8)
        scheme.rotation(Positions.from_marks(nothing, levels=levels_of(scheme)))
    with as_config_error("model."):
        return DecoderConfig(**sizes, encoding=dict(config.encoding))
