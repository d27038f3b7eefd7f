"""Slurm and Ray: the real executors of datatrove, on clusters that are this machine."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.train.data.corpora import content
from tests.train.data.preparing.disturbed import ROOT, run, write_corpus
from train.data.preparing.engines import Local, Ray, Slurm
from train.errors import DataError, MissingPackage

SBATCH = """#!{python}
import os, re, subprocess, sys
script = open(sys.argv[-1]).read()
options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.M))
open(os.environ["SEEN"], "a").write(script)
first, last = options["array"].partition("%")[0].split("-")
for task in range(int(first), int(last) + 1):
    offset = re.search("RUN_OFFSET=([0-9]+)", " ".join(sys.argv))
    environ = dict(os.environ, SLURM_ARRAY_TASK_ID=str(task), SLURM_NODELIST="here",
                   RUN_OFFSET=offset[1], SLURM_JOB_ID="7")
    output = options["output"].replace("%A", "7").replace("%a", str(task))
    if str(task) in os.environ.get("LOST", "").split():
        continue
    with open(output, "w") as log:
        subprocess.run(["bash", "-c", script], env=environ, stdout=log, stderr=log)
print("Submitted batch job 7")
"""
SRUN = """#!{python}
import shutil, sys
from tests.processes import run
words = sys.argv[sys.argv.index("launch_pickled_pipeline") :]
sys.exit(run([sys.executable, shutil.which(words[0]), *words[1:]]).returncode)
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A Slurm whose jobs run here, one after the other, at once."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "sbatch": SBATCH.format(python=sys.executable),
        "srun": SRUN.format(python=sys.executable),
    }
    programs |= {"scontrol": "#!/bin/bash\necho here\n", "squeue": "#!/bin/bash\n"}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(processes.VARIABLE, processes.server())
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return tmp_path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus, and what a local run makes of it."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "in", seed=5, documents=20)
    run(folder / "in", folder / "here", engine=Local(workers=1))
    return folder / "in", content(folder / "here")


def test_slurm_gives_the_bytes_of_a_local_run_and_repeats_lost_tasks(cluster, corpus, monkeypatch):
    folder, expected = corpus
    engine = Slurm(
        partition="night", time="00:10:00", workers=2, memory_gb=3, qos="low", poll_seconds=0.01
    )
    monkeypatch.setenv("LOST", "1")
    with pytest.raises(DataError, match=r"1 of [0-9]+ parts failed.*run again"):
        run(folder, cluster / "out", engine=engine)
    monkeypatch.delenv("LOST")
    seen = (cluster / "seen").read_text()
    for line in ("partition=night", "time=00:10:00", "mem-per-cpu=3G", "qos=low"):
        assert f"#SBATCH --{line}" in seen
    assert "%2" in seen and "launch_pickled_pipeline" in seen
    assert f'export PATH="{Path(sys.executable).parent}:$PATH"' in seen
    (cluster / "seen").unlink()
    run(folder, cluster / "out", engine=engine)
    assert content(cluster / "out") == expected
    assert "array=0-0" in (cluster / "seen").read_text()


def test_no_slurm_is_said(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DataError, match=r"engine=slurm: the job could not be submitted"):
        run(corpus[0], tmp_path / "out", engine=Slurm(partition="night"))
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_ray_gives_the_bytes_of_a_local_run(corpus, tmp_path):
    import ray

    folder, expected = corpus
    try:
        run(folder, tmp_path / "out", engine=Ray(workers=1, memory_gb=0.1))
    finally:
        ray.shutdown()
    assert content(tmp_path / "out") == expected


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_no_ray_is_said(corpus, tmp_path):
    with pytest.raises(MissingPackage, match=r"engine=ray needs ray: pip install .*\[ray\]"):
        run(corpus[0], tmp_path / "out", engine=Ray())
