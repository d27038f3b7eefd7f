"""The command `bipe`, also as `python -m bipe`: hands over to `train.cli`.

The names of the other rooms are common: a train.py of the user's own on PYTHONPATH would be found
first. So this room, whose name is the project's, looks before anything of them is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOMS = ("segmenters", "train")


def main() -> int:
    """Run the command on the words of the process; return the exit status."""
    for room in ROOMS:
        spec = find_spec(room)
        folder = Path(spec.origin or room) if spec else Path(room)
        if folder.absolute() != Path(__file__).absolute().parents[1] / room / "__init__.py":
            print(
                f"bipe: {folder} hides bipe's own package {room}: rename it, or remove its folder "
                "from PYTHONPATH",
                file=sys.stderr,
            )
            return 2
    return int(import_module("train.cli").main())


if __name__ == "__main__":
    sys.exit(main())
