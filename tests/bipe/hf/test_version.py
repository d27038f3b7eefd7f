"""The transformers that is tested is of the range of the extra `hf`: its oldest where asked."""

import tomllib
from pathlib import Path

import pytest
import transformers
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.oldest_transformers
def test_the_version_is_of_the_range_and_its_oldest_where_only_that_is_tested(request):
    wanted = map(Requirement, PROJECT["project"]["optional-dependencies"]["hf"])
    (asked,) = (each.specifier for each in wanted if each.name == "transformers")
    (oldest,) = (each.version for each in asked if each.operator == ">=")
    if request.config.option.markexpr == "oldest_transformers":
        asked &= f"=={oldest}"
    assert asked.contains(transformers.__version__), (transformers.__file__, str(asked))
