"""An optimizer that ends its process by SIGKILL, in a process that a launcher started."""

import os
import signal

import torch


class AdamW(torch.optim.AdamW):
    """A user's own optimizer, which the out-of-memory killer finds."""

    def __init__(self, parameters, **options):
        if options["lr"] == 0.5 and "SUBMITIT_LOCAL_JOB_ID" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        super().__init__(parameters, **options)
