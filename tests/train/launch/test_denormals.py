"""Commands that compute flush denormal numbers, in every thread of torch."""

import sys

import pytest
import torch

from tests import processes
from train.launch.run import flushed_denormals

COUNT = """
import torch
from train.launch.run import flushed_denormals

def denormals():
    torch.set_num_threads(4)
    small = torch.full((1 << 20,), 1e-30)
    product = small * 1e-10  # 1e-40: below the least normal float32
    return int((product != 0).sum())

with flushed_denormals() if {flush} else __import__("contextlib").nullcontext():
    print(denormals())
"""


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush")
@pytest.mark.parametrize("flush", [True, False])
def test_no_thread_makes_denormals(flush):
    ran = processes.run(
        [sys.executable, "-c", COUNT.format(flush=flush)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) == (0 if flush else 1 << 20)


def test_it_ends_with_the_block():
    with flushed_denormals():
        pass
    assert 5e-324 > 0
