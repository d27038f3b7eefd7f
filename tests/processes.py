"""Processes for tests, forked from one parent that has imported torch, lightning, hydra and train.

    process = Popen([sys.executable, "-m", "train.cli", ...], cwd=..., env=..., stderr=PIPE)
    done = run([sys.executable, "-c", program], capture_output=True, text=True)
    done = run([sys.executable, "script.py", ...])
    found = together(function, *arguments)      on each of two ranks

Popen and run are those of `subprocess`, and what they start is a process like any other, with a
pid, pipes, a session, signals and a status of its own; it only starts in 0.05 s, not in 4. So do
the ranks of a training that it starts, and whatever Python a forked process starts itself, or a
program whose environment has VARIABLE: server().
A variable that Python itself reads (PYTHONHASHSEED) has no effect; other programs start as ever.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import inspect
import json
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from subprocess import PIPE
from types import ModuleType

from train import ranks

ROOT = Path(__file__).parents[1]
IMPORTED = ("torch", "lightning", "hydra", "torch.distributed.fsdp", "torch.distributed.launcher",
            "train.commands.pretrain", "train.launch.composition", "train.launch.start",
            "train.launch.run")  # fmt: skip
LIMIT_S = 300
VARIABLE = "BIPE_TESTS_PROCESSES"
_Popen = subprocess.Popen  # a test may put ours in its place


class Popen(subprocess.Popen):
    """subprocess.Popen, forked for Python."""

    _status = None

    def _execute_child(self, *given):
        args, cwd, env, session = given[0], given[5], given[6], given[-2]
        python, *words = [args] if isinstance(args, str) else map(os.fspath, args)
        words = words[words[:1] in (["-u"], ["-P"]) :]
        ours = python == sys.executable and words
        ours = ours and (words[0] in ("-m", "-c") or Path(words[0]).is_file())
        if not ours or given[2] or given[4]:  # preexec_fn, pass_fds
            return super()._execute_child(*given)
        ends = given[10], given[13], given[15]  # of the pipes, for the child
        streams = [end if end != -1 else own for own, end in enumerate(ends)]
        self._status, told = os.pipe()
        asked = {"words": words, "cwd": os.fspath(cwd or Path.cwd()), "session": session}
        asked["env"] = {**(os.environ if env is None else env), VARIABLE: server()}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(f"\0{server()}")
            socket.send_fds(asking, [json.dumps(asked).encode()], [*streams, told])
            self.pid = int(asking.recv(64))
        self._child_created = True
        os.close(told)
        self._close_pipe_fds(*given[10:16])

    def _try_wait(self, wait_flags):
        if self._status is None:
            return super()._try_wait(wait_flags)
        if not select.select([self._status], [], [], 0 if wait_flags else None)[0]:
            return 0, 0
        # The parent of all says it; without it, nobody knows.
        status = int(os.read(self._status, 64) or 0)
        os.close(self._status)
        self._status = None
        return self.pid, status

    def _internal_poll(self, *rest, **named):
        if self._status is None:
            return super()._internal_poll(*rest, **named)
        if self.returncode is None and (found := self._try_wait(os.WNOHANG))[0]:
            self._handle_exitstatus(found[1])
        return self.returncode


def run(args, *, input=None, timeout=None, check=False, capture_output=False, **options):
    """Do as subprocess.run, in any thread."""
    options |= {"stdout": PIPE, "stderr": PIPE} if capture_output else {}
    options |= {"stdin": PIPE} if input is not None else {}
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, args, out, err)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def wait_for(condition, *, seconds=LIMIT_S):
    """Wait until a condition holds; fail if it never does."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


def together(function, *arguments, ranks=2):
    """Call a function of a module on each rank, with gloo between them; return what rank 0 does."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as running:
        Path(place, "asked").write_bytes(pickle.dumps((function, arguments)))
        words = [sys.executable, "-c", "from tests.processes import _be_rank; _be_rank()", place]
        team = [Popen([*words, f"{rank}", f"{ranks}"], stderr=PIPE) for rank in range(ranks)]
        for each in team:
            running.callback(each.kill)
        said = [each.communicate(timeout=LIMIT_S)[1].decode() for each in team]
        assert not any(each.returncode for each in team), "\n".join([function.__name__, *said])
        return pickle.loads(Path(place, "found").read_bytes())


def _be_rank():
    import torch

    place, rank, ranks = Path(sys.argv[1]), *map(int, sys.argv[2:])
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{place}/store", rank=rank, world_size=ranks
    )
    function, arguments = pickle.loads((place / "asked").read_bytes())
    found = function(*arguments)
    if rank == 0:
        (place / "found").write_bytes(pickle.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@functools.cache
def server():
    """Return the name of the parent of all; where there is none, start one that ends with us."""
    if name := os.environ.get(VARIABLE):
        return name
    there, here = os.pipe()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(f"\0bipe-tests-{os.getpid()}")
    listening.listen()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    program = "from tests.processes import _serve; _serve()"
    with listening:
        ends = [listening.fileno(), there]
        words = [sys.executable, "-c", program, *map(str, ends)]
        quiet = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        parent = _Popen(words, cwd=ROOT, env=environment, pass_fds=ends, **quiet)
    os.close(there)

    def end():  # its time and that of its children is then on our account
        os.close(here)
        parent.wait()

    atexit.register(end)
    return f"bipe-tests-{os.getpid()}"


def _serve():
    """Fork what is asked for, and pass on how each child ended."""
    listening, alive = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for name in IMPORTED:
        importlib.import_module(name)
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with threads must not fork"
    gc.freeze()
    os.fsync = lambda _: None  # nobody pulls the plug
    inspect.stack = functools.partial(inspect.stack, 0)  # torch's agent asks for names alone, often
    ended, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(noted)
    children = {}  # the pipe for its status, by pid
    while True:
        ready = select.select([listening, alive, ended], [], [])[0]
        if alive in ready:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            return
        if ended in ready:
            os.read(ended, 1 << 10)
            while children and (found := os.waitpid(-1, os.WNOHANG))[0]:
                told = children.pop(found[0])
                with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                    os.write(told, str(found[1]).encode())
                os.close(told)
        if listening in ready:
            asking = listening.accept()[0]
            message, streams, *_ = socket.recv_fds(asking, 1 << 20, 4)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and & ignore it
                ours = (listening.detach(), asking.detach(), alive, ended, noted)
                for each in (*ours, streams.pop(), *children.values()):
                    os.close(each)
                _finish(functools.partial(_become, json.loads(message) | {"mask": mask}, streams))
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            with asking:
                asking.send(str(pid).encode())
            children[pid] = streams.pop()
            for each in streams:
                os.close(each)


def _finish(work):
    """Do the work and end as Python does; but leave the modules, which takes it a second."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        os._exit(status & 0xFF)


def _become(asked, streams):
    """Be the process that was asked for."""
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in streams:
        os.close(each)
    if asked["session"]:
        os.setsid()
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    _run_asked(asked)


def _run_asked(asked):
    """Run the words; the ranks that they start are forked like this process itself."""
    ranks.START, subprocess.Popen = "fork", Popen
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    path = asked["env"].get("PYTHONPATH", "")
    sys.path[:0] = [asked["cwd"], *filter(None, path.split(os.pathsep))]
    importlib.invalidate_caches()
    signal.pthread_sigmask(signal.SIG_SETMASK, asked["mask"])
    kind, *words = asked["words"]
    sys.argv = words if kind == "-m" else asked["words"]
    if kind == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        program = sys.argv.pop(1)
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), vars(main))
    else:
        runpy.run_path(kind, run_name="__main__")
