"""A function run by several processes with gloo between them, as by so many devices."""

import os
import traceback

import torch
import torch.multiprocessing

LIMIT_S = 300


def together(function, *arguments, ranks=2, folder):
    """Call function(*arguments) on each rank; what rank 0 returns, loaded from `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    context = torch.multiprocessing.start_processes(
        _rank, (ranks, function, arguments, str(folder)), ranks, join=False, start_method="spawn"
    )
    if not context.join(timeout=LIMIT_S):
        while not context.join(timeout=LIMIT_S):
            raise TimeoutError(f"{function.__name__} hangs")
    return torch.load(folder / "found.pt", weights_only=False)


def _rank(rank, ranks, function, arguments, folder):
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    try:
        found = function(*arguments)
        if rank == 0:
            torch.save(found, f"{folder}/found.pt")
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # at exit gloo would wait for the others
