"""Processes for tests, forked from one parent that has imported torch, lightning, hydra and train.

    process = Popen([sys.executable, "-m", "train.cli", ...], cwd=..., env=..., stderr=PIPE)
    done = run([sys.executable, "-c", program], capture_output=True, text=True)
    found = together(function, *arguments)      on each of two ranks, which live for the session

Popen and run are those of `subprocess`, and what they start is a process like any other, with a
pid, pipes, a session, signals and a status of its own; it only starts in 0.05 s, not in 4. ranks:
[1], a process that starts one further rank, which is forked too; [3, 1], a sweep of 3 such pairs.
A variable that Python itself reads (PYTHONHASHSEED) has no effect; other programs start as ever.
"""

import atexit
import contextlib
import functools
import importlib
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
import traceback
from pathlib import Path
from subprocess import PIPE, CompletedProcess, TimeoutExpired
from types import ModuleType

ROOT = Path(__file__).parents[1]
IMPORTED = ("torch", "lightning", "hydra", "torch.distributed.fsdp", "train.commands.pretrain",
            "train.launch.composition", "train.launch.start", "train.launch.run")  # fmt: skip
LIMIT_S = 300
_Popen = subprocess.Popen  # a test may put ours in its place


class Popen(subprocess.Popen):
    """subprocess.Popen, forked for Python; ranks: processes that it starts, that those start."""

    def __init__(self, args, *rest, ranks=(), **options):
        self._ranks, self._status = ranks, None
        super().__init__(args, *rest, **options)

    def _execute_child(self, *given):
        args, cwd, env, session = given[0], given[5], given[6], given[-2]
        if list(args[:1]) != [sys.executable] or args[1] not in ("-m", "-c"):
            return super()._execute_child(*given)
        ends = given[10], given[13], given[15]  # of the pipes, for the child
        streams = [end if end != -1 else own for own, end in enumerate(ends)]
        self._status, told = os.pipe()
        asked = {"words": [*map(os.fspath, args[1:])], "cwd": os.fspath(cwd or Path.cwd())}
        asked |= {"env": dict(os.environ if env is None else env), "ranks": [*self._ranks]}
        server = _server()
        message = json.dumps(asked | {"session": session}).encode()
        socket.send_fds(server, [message], [*streams, told])
        self.pid = int(server.recv(64))
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
    """Do as subprocess.run."""
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
    return CompletedProcess(args, process.returncode, out, err)


def together(function, *arguments, ranks=2, timeout=LIMIT_S):
    """Call a function of a module on each rank, with gloo between them; return what rank 0 does."""
    team = _team(ranks)
    try:
        for rank in team:
            pickle.dump((function, arguments), rank.stdin)
            rank.stdin.flush()
        waiting, found = {rank.stdout: n for n, rank in enumerate(team)}, {}
        while waiting:
            ready = select.select([*waiting], [], [], timeout)[0]
            if not ready:
                raise TimeoutExpired(function.__name__, timeout)
            for stream in ready:
                kind, value = pickle.load(stream)
                found[waiting.pop(stream)] = value
                if kind == "error":
                    raise AssertionError(f"{function.__name__} failed on a rank:\n{value}")
    except BaseException:
        _end(team)
        _team.cache_clear()
        raise
    return found[0]


@functools.cache
def _team(ranks):
    place = tempfile.mkdtemp(prefix="ranks")
    program = "from tests.processes import _serve_as_rank; _serve_as_rank()"
    words = [sys.executable, "-c", program, str(ranks), f"{place}/store"]
    team = [Popen([*words, str(rank)], stdin=PIPE, stdout=PIPE) for rank in range(ranks)]
    atexit.register(_end, team)
    return team


def _end(team):
    for rank in team:
        rank.kill()
        rank.wait()


def _serve_as_rank():
    import torch

    ranks, store, rank = sys.argv[1:]
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints is no answer
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(ranks)
    )
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        try:
            value = function(*arguments)
            answer = "found", value if rank == "0" else None
            torch.distributed.barrier()
        except BaseException:
            answer = "error", traceback.format_exc()
        pickle.dump(answer, out)
        out.flush()


@functools.cache
def _server():
    """Start the parent of all, which ends with this process; return the way to it."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    program = "from tests.processes import _serve; _serve()"
    words = [sys.executable, "-c", program, str(there.fileno())]
    quiet = {"stdin": subprocess.DEVNULL, "start_new_session": True}
    with there:
        server = _Popen(words, cwd=ROOT, env=environment, pass_fds=[there.fileno()], **quiet)

    def end():  # its time and that of its children is then on our account
        here.close()
        server.wait()

    atexit.register(end)
    return here


def _serve():
    """Fork what is asked for, and pass on how each child ended."""
    asking = socket.socket(fileno=int(sys.argv[1]))
    for name in IMPORTED:
        importlib.import_module(name)
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with threads must not fork"
    ended, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(noted)
    children = {}  # the pipe for its status, by pid
    while True:
        ready = select.select([asking, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 1 << 10)
            while children and (found := os.waitpid(-1, os.WNOHANG))[0]:
                told = children.pop(found[0])
                with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                    os.write(told, str(found[1]).encode())
                os.close(told)
        if asking in ready:
            message, streams, *_ = socket.recv_fds(asking, 1 << 20, 4)
            if not message:
                for pid in children:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                return
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and & ignore it
                for each in (asking.detach(), ended, noted, streams.pop(), *children.values()):
                    os.close(each)
                _finish(functools.partial(_become, json.loads(message) | {"mask": mask}, streams))
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
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
    except KeyboardInterrupt:
        status = -signal.SIGINT
        traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if status == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
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
    spares, levels = [], list(asked["ranks"])
    while levels and len(spares) < levels[0]:
        receive, send = os.pipe()
        if (pid := os.fork()) == 0:
            for each in (send, *(own for _, own in spares)):
                os.close(each)
            with os.fdopen(receive, "rb") as pipe:
                message = pipe.read()
            if not message:  # the one that it was for has ended
                os._exit(0)
            asked, spares, levels = json.loads(message), [], levels[1:]
            continue
        os.close(receive)
        spares.append((pid, send))
    if spares:
        subprocess.Popen = _forked_ranks(spares, module=asked["words"][1])
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    path = asked["env"].get("PYTHONPATH", "")
    sys.path[:0] = [asked["cwd"], *filter(None, path.split(os.pathsep))]
    importlib.invalidate_caches()
    signal.pthread_sigmask(signal.SIG_SETMASK, asked["mask"])
    kind, what, *words = asked["words"]
    sys.argv = [what if kind == "-m" else kind, *words]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(main))


def _forked_ranks(spares, *, module):
    """Return a Popen that starts Lightning's further ranks in processes that are there already."""

    class Rank(subprocess.Popen):
        def _execute_child(self, *given):
            args, cwd, env = given[0], given[5], given[6]
            words = [word for word in args[1:] if word != "-P"]
            if words[:2] != ["-m", module] or not spares:
                return super()._execute_child(*given)
            self.pid, send = spares.pop(0)
            self._child_created = True
            asked = {"words": words, "cwd": str(cwd or Path.cwd())}
            asked["env"] = dict(os.environ if env is None else env)
            asked["mask"] = [*map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))]
            with os.fdopen(send, "wb") as pipe:
                pipe.write(json.dumps(asked).encode())

    return Rank
