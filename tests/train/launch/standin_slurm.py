"""A Slurm for the tests, one program with several names: sbatch srun squeue scontrol scancel.

Its nodes are processes of this machine, and $STANDIN_SLURM holds the script, the processes and the
state of each job. Around the processes of a job it does what Slurm does: variables, signals to the
tasks and not to the script, and requeueing with SLURM_RESTART_COUNT.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ["STANDIN_SLURM"])


def sbatch(words):
    script = Path(words[-1]).read_text()
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.M))
    own = str(100 + len(list(HOME.glob("*.sh"))))
    (HOME / f"{own}.sh").write_text(script)
    write(own, "state", "PENDING")
    subprocess.Popen(
        [sys.executable, __file__, "job", own, json.dumps(options)],
        start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=(HOME / "daemon.log").open("a"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    print(f"Submitted batch job {own}")


def job(own, options):
    """Run the script of a job until it ends without being requeued."""
    options = json.loads(options)
    nodes, each = int(options["nodes"]), int(options["ntasks-per-node"])
    environ = os.environ | {
        "SLURM_JOB_ID": own,
        "SLURM_JOB_NAME": options["job-name"],
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(nodes * each),
        "SLURM_NTASKS_PER_NODE": str(each),
        "SLURM_NODELIST": "localhost",
        "ENVIRONMENT": "BATCH",
        "STANDIN_JOB": own,
    }
    output = Path(options["output"].replace("%j", own))
    for count in range(99):
        remove(own, "requeue")
        write(own, "state", "RUNNING")
        again = {"SLURM_RESTART_COUNT": str(count)} if count else {}
        with output.open("a") as log:
            script = ["bash", str(HOME / f"{own}.sh")]
            done = subprocess.run(script, env=environ | again, stdout=log, stderr=log)
        write(own, f"status{count}", done.returncode)
        if read(own, "requeue") is None:
            break
    write(own, "state", "DONE")


def srun(words):
    """Start the tasks; the output of each goes to a file of its own."""
    from tests.processes import Popen

    own, environ = os.environ["STANDIN_JOB"], dict(os.environ)
    output = words[words.index("--output") + 1]
    while words[0].startswith("-"):
        words = words[2:] if words[0] == "--output" else words[1:]
    each, tasks = int(environ["SLURM_NTASKS_PER_NODE"]), []
    for rank in range(int(environ["SLURM_NTASKS"])):
        named = {
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank % each),
            "SLURM_NODEID": str(rank // each),
            "SLURM_STEP_ID": "0",
        }
        with Path(output.replace("%j", own).replace("%t", str(rank))).open("a") as log:
            tasks.append(Popen(words, env=environ | named, stdout=log, stderr=log))
    write(own, "tasks", json.dumps([each.pid for each in tasks]))
    statuses = [each.wait() for each in tasks]
    remove(own, "tasks")
    raise SystemExit(max(128 - status if status < 0 else status for status in statuses))


def squeue(words):
    state = read(words[words.index("--jobs") + 1], "state")
    if state in ("PENDING", "RUNNING"):
        print(state)


def scontrol(words):
    assert words[0] == "requeue"
    write(words[1], "requeue", "yes")


def scancel(words):
    """Send a signal to the tasks of a job."""
    option, name, own = words
    assert option == "--signal"
    for pid in json.loads(read(own, "tasks") or "[]"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, getattr(signal, f"SIG{name}"))


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
    if words[:1] == ["job"]:
        job(*words[1:])
    else:
        globals()[program](words)
