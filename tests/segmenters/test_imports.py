"""What importing the package costs: numpy, and no back end."""

import subprocess
import sys


def test_importing_segmenters_loads_no_back_end_and_no_torch():
    program = (
        "import sys, segmenters; segmenters.Sentences(backend='rules').cut('One. Two.');"
        "print(sorted({'spacy', 'tree_sitter', 'torch', 'lightning', 'hydra', 'datasets'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
