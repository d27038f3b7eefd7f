"""What a document must pass to be prepared: datatrove's filters, as descriptions.

A filter here is a frozen description with a fingerprint; `step` builds the datatrove filter that
does the work, in the process that does it. What was dropped is counted by the filter's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from train.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Filter(ABC):
    """Keeps or drops a document by itself alone."""

    @property
    def name(self) -> str:
        """What dropped documents are counted under."""
        return type(self).__name__

    @abstractmethod
    def step(self) -> Any:
        """The datatrove filter."""

    def check(self) -> None:  # noqa: B027  most have nothing to check
        """Raise DataError if the filter cannot work here, before any work is done."""

    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides what it drops."""
        return {"filter": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Length(Filter):
    """Keeps documents of min_characters to max_characters."""

    min_characters: int = 0
    max_characters: int | None = None

    def __post_init__(self) -> None:
        if self.max_characters is not None and self.max_characters < self.min_characters:
            raise DataError(
                f"max_characters must be at least min_characters={self.min_characters}, was: "
                f"{self.max_characters}"
            )

    def step(self) -> Any:
        from datatrove.pipeline.filters import LambdaFilter

        return LambdaFilter(self.keeps)

    def keeps(self, document: Any) -> bool:
        """Whether a document stays."""
        length = len(document.text)
        return length >= self.min_characters and (
            self.max_characters is None or length <= self.max_characters
        )


@dataclass(frozen=True, kw_only=True)
class Language(Filter):
    """Keeps documents that fastText's language model finds to be in one of `languages`.

    model: path of the model (lid.176.bin of fasttext.cc, or GlotLID); nothing is downloaded.
    threshold: the least probability.
    """

    languages: Sequence[str]
    model: str | Path
    threshold: float = 0.65

    def check(self) -> None:
        if not Path(self.model).is_file():
            raise DataError(
                f"model={self.model}: there is no such file. Fetch lid.176.bin from fasttext.cc "
                "and give its path; bipe downloads no model"
            )
        self.step()

    def step(self) -> Any:
        from datatrove.pipeline.filters import LanguageFilter

        try:
            step = LanguageFilter(list(self.languages), language_threshold=self.threshold)
            from fasttext.FastText import _FastText
        except ImportError as fault:
            raise DataError("Language needs fastText; run: pip install 'bipe[language]'") from fault
        step.model._model = _FastText(str(self.model))  # where it would put what it downloads
        return step

    def fingerprint(self) -> dict[str, Any]:
        digest = sha256(Path(self.model).read_bytes()).hexdigest()
        return {
            "filter": "Language",
            "languages": list(self.languages),
            "threshold": self.threshold,
            "model": digest,
        }


@dataclass(frozen=True, kw_only=True)
class Datatrove(Filter):
    """Any filter of datatrove.pipeline.filters, by the name of its class.

    Example: ``filter: GopherQualityFilter, options: {min_doc_words: 50}``. It must decide by the
    document alone; SamplerFilter needs its seed.
    """

    filter: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.filter

    def check(self) -> None:
        self.step()

    def step(self) -> Any:
        from datatrove.pipeline import filters

        kind = getattr(filters, self.filter, None)
        known = [name for name in vars(filters) if name.endswith("Filter")]
        if kind is None or self.filter not in known:
            raise DataError(f"filter must be one of {', '.join(known)}, was: {self.filter}")
        try:
            return kind(**self.options)
        except (TypeError, ImportError) as fault:
            raise DataError(f"filter={self.filter}: {fault}") from None
