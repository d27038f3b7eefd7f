"""A Slurm for the tests, one program with several names: sbatch srun squeue scontrol scancel.

Its nodes are processes of this machine, and $STANDIN_SLURM holds the script, the processes and the
state of each job. Around the processes of a job it does what Slurm does: variables, arrays, signals
to the tasks and not to the script, requeueing with SLURM_RESTART_COUNT, and node_fail, which kills
all processes of a job and requeues it.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ["STANDIN_SLURM"])
LONG = {"nodes": "1", "ntasks-per-node": "1", "job-name": "x"}


def sbatch(words):
    script = Path(words[-1]).read_text()
    options = LONG | dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.M))
    number = str(100 + len(list(HOME.glob("*.sh"))))
    (HOME / f"{number}.sh").write_text(script)
    first, last = "0", "0"
    if "array" in options:
        first, last = options["array"].partition("%")[0].split("-")
    for task in range(int(first), int(last) + 1):
        own = f"{number}_{task}" if "array" in options else number
        write(own, "state", "PENDING")
        command = [sys.executable, __file__, "job", own, json.dumps(options)]
        subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=(HOME / "daemon.log").open("a"), stderr=subprocess.STDOUT,
        )  # fmt: skip
    print(f"Submitted batch job {number}")


def job(own, options):
    """Run the script of a job until it ends without being requeued."""
    options = json.loads(options)
    number, _, task = own.partition("_")
    nodes, each = int(options["nodes"]), int(options["ntasks-per-node"])
    environ = os.environ | {
        "SLURM_JOB_ID": f"{number}{task}",
        "SLURM_JOB_NAME": options["job-name"],
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(nodes * each),
        "SLURM_NTASKS_PER_NODE": str(each),
        "SLURM_NODELIST": "localhost",
        "ENVIRONMENT": "BATCH",
        "STANDIN_JOB": own,
    }
    if task:
        environ |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": task}
    write(environ["SLURM_JOB_ID"], "is", own)
    output = Path(options["output"].replace("%A", number).replace("%a", task).replace("%j", number))
    for count in range(99):
        remove(own, "requeue")
        if read(own, "state") == "CANCELLED":
            break
        write(own, "state", "RUNNING")
        again = {"SLURM_RESTART_COUNT": str(count)} if count else {}
        with output.open("a") as log:
            done = subprocess.run(
                ["bash", str(HOME / f"{number}.sh")], env=environ | again, stdout=log, stderr=log
            )
        write(own, f"status{count}", done.returncode)
        if read(own, "requeue") is None:
            break
    write(own, "state", "DONE")


def srun(words):
    """Start the tasks; the output of each goes to a file of its own."""
    own, environ = os.environ["STANDIN_JOB"], dict(os.environ)
    output = words[words.index("--output") + 1]
    while words[0].startswith("-"):
        words = words[2:] if words[0] == "--output" else words[1:]
    count, each = int(environ["SLURM_NTASKS"]), int(environ["SLURM_NTASKS_PER_NODE"])
    number, _, task = own.partition("_")
    tasks = []
    for rank in range(count):
        place = output.replace("%A", number).replace("%a", task)
        place = place.replace("%j", number).replace("%t", str(rank))
        named = {
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank % each),
            "SLURM_NODEID": str(rank // each),
            "SLURM_STEP_ID": "0",
        }
        with Path(place).open("a") as log:
            tasks.append(subprocess.Popen(words, env=environ | named, stdout=log, stderr=log))
    write(own, "tasks", json.dumps([each.pid for each in tasks]))
    statuses = [each.wait() for each in tasks]
    remove(own, "tasks")
    raise SystemExit(max(128 - status if status < 0 else status for status in statuses))


def squeue(words):
    wanted = words[words.index("--jobs") + 1]
    wanted = read(wanted, "is") or wanted
    for path in HOME.glob("*.state"):
        named = wanted in (path.stem, path.stem.partition("_")[0])
        if named and path.read_text() in ("PENDING", "RUNNING", "COMPLETING"):
            print(path.read_text())


def scontrol(words):
    assert words[0] == "requeue"
    write(read(words[1], "is"), "requeue", "yes")


def scancel(words):
    own = words[-1]
    if words[0] != "--signal":
        write(own, "state", "COMPLETING")
    send(own, getattr(signal, f"SIG{words[1]}") if words[0] == "--signal" else signal.SIGTERM)


def node_fail(own, rank):
    """Lose the node of one task; Slurm kills the others and starts the job again."""
    write(own, "requeue", "yes")
    tasks = json.loads(read(own, "tasks"))  # not those of the next start
    os.kill(tasks.pop(int(rank)), signal.SIGKILL)
    time.sleep(0.2)
    kill(tasks, signal.SIGKILL)


def send(own, signum):
    kill(json.loads(read(own, "tasks") or "[]"), signum)


def kill(tasks, signum):
    for pid in tasks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def write(own, name, value):
    path = HOME / f"{own}.{name}"
    new = path.with_suffix(f".{os.getpid()}")  # several programs write
    new.write_text(str(value))
    new.rename(path)


def read(own, name):
    path = HOME / f"{own}.{name}"
    return path.read_text() if path.exists() else None


def remove(own, name):
    (HOME / f"{own}.{name}").unlink(missing_ok=True)


if __name__ == "__main__":
    program, words = Path(sys.argv[0]).name, sys.argv[1:]
    if program.endswith(".py") or words[:1] == ["job"]:
        program, *words = words
    if program in ("job", "node_fail"):
        globals()[program](*words)
    else:
        globals()[program](words)
