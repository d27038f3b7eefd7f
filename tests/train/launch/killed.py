"""An optimizer that ends its process by SIGKILL, in a process that a launcher started."""

import os
import signal

from train.fit.optim import adamw as whole


def adamw(parameters, **options):
    if str(os.getppid()) != os.environ["TYPED_BY"]:  # not where the user typed
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(parameters, **options)
