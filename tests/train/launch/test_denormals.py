"""Commands that compute flush denormal numbers, in every thread of torch."""

import sys

import pytest
import torch

from tests import processes
from train.launch.run import own_settings

COUNT = """
import contextlib, torch
from train.launch.run import own_settings

with {block}:
    torch.set_num_threads(4)
    small = torch.full((1 << 20,), 1e-30)
    print(int((small * 1e-10 != 0).sum()))  # 1e-40: below the least normal float32
"""


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush")
@pytest.mark.parametrize(
    ("block", "left"), [("own_settings()", 0), ("contextlib.nullcontext()", 1 << 20)]
)
def test_no_thread_makes_denormals(block, left):
    program = [sys.executable, "-c", COUNT.format(block=block)]
    ran = processes.run(program, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == left
    with own_settings():
        pass
    assert 5e-324 > 0  # it ends with the block
