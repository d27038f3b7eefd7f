"""rows.micro_batch=auto: as many rows at once as fit, and the same training whatever that is."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from bipe import DecoderConfig
from bipe.build import build
from bipe.encodings.base import as_scheme
from tests.bipe.conftest import SCHEMES, small_decoder
from tests.train.studies import curve, losses, pretrain, same_weights
from train.commands.plan import reckoning
from train.data.rows.choices import uneven
from train.fit import machine, runs
from train.fit import memory as needs
from train.fit.parallel import at_once

AUTO = "rows.micro_batch=auto"
PARTS = {"embedding": 8000, "encoding": 0, "attention": 8000, "mlp": 9000, "norms": 90, "head": 0}
SIZES = {"vocab_size": 500, "width": 16, "n_layer": 2, "n_head": 2, "mlp_width": 40}
STEP = needs.Step(
    decoder=DecoderConfig(encoding={"_target_": "bipe.encodings.NoPE"}, **SIZES),
    weights=needs.Weights(**PARTS),
    rows=1,
    time=64,
    path="causal",
)


def peak(rows, share):
    return needs.memory_of(needs.of_rows(STEP, rows, share)).peak


@given(share=st.integers(1, 200), room=st.floats(0, 1.5), held=st.integers(0, 10**6))
def test_the_choice_is_the_largest_divisor_of_the_share_that_fits(share, room, held):
    free = int(room * peak(share, share))
    chosen = needs.rows_at_once(STEP, "auto", share=share, free=free, held=held)
    divisors = [n for n in range(1, share + 1) if share % n == 0]
    fit = [n for n in divisors if peak(n, share) <= needs.USABLE * free + held]
    assert chosen == max(fit, default=0)
    assert needs.rows_at_once(STEP, "auto", share=share, free=None) == share
    asked = max(1, share // 2)
    fits = peak(asked, share) <= needs.USABLE * free + held
    assert needs.rows_at_once(STEP, asked, share=share, free=free, held=held) == asked * fits


def test_rows_can_be_chosen_for_every_encoding():
    for name in SCHEMES:
        model = small_decoder(name)
        scheme = as_scheme(build(model.config.encoding))
        held = replace(STEP, decoder=model.config, weights=needs.count_weights(model))
        for kind in ("cpu", "cuda"):
            step, reason = needs.placed(held, scheme, kind=kind, half=False, attention="auto")
            assert reason and needs.rows_at_once(step, "auto", share=6, free=1 << 40) == 6


@given(
    batch=st.integers(1, 300),
    micro=st.one_of(st.just("auto"), st.integers(1, 40)),
    context=st.sampled_from([1, 2, 4]),
    readers=st.integers(1, 16),
)
def test_what_devices_cannot_share_is_refused_with_a_cure(batch, micro, context, readers):
    shared = {"devices": readers * context, "context": context}
    told = uneven(batch, micro, **shared)
    assert bool(told) == bool(batch % (readers * (1 if micro == "auto" else micro)))
    assume(told)
    key, value = re.search(r"; set rows\.(\w+)=(\d+)$", told).groups()
    assert not uneven(
        *{"global_batch": (int(value), micro), "micro_batch": (batch, int(value))}[key], **shared
    )
    if micro == "auto":
        assert "micro_batch" not in told and abs(int(value) - batch) <= readers


def test_with_room_for_all_it_is_the_whole_share_bit_for_bit(smoke, finished, caplog):
    run = pretrain(*smoke, AUTO)
    assert curve(run) == curve(finished("bipe_rope")) and same_weights(run, finished("bipe_rope"))
    assert "micro_batch" not in caplog.text


@pytest.fixture
def memory(monkeypatch):
    """Set what is free, in bytes, for plans and trainings."""

    def set_free(free):
        for place in (at_once, reckoning):
            monkeypatch.setattr(place, "free_memory", lambda *_, **__: free)

    return set_free


def test_with_less_room_a_step_takes_several_passes_and_has_the_same_loss(
    bipe, finished, tmp_path, memory, caplog
):
    planned = json.loads(bipe("pretrain", "--plan", "--json", "rows.micro_batch=4")[1])["on"][0]
    assert planned["micro_batch"] == 4
    memory(planned["peak"])
    status, shown, _ = bipe("pretrain", "--plan", AUTO)
    assert status == 0 and "(2 rows x 2 micro-batches)" in shown
    assert re.search(r"rows at once +2", shown)
    planned = json.loads(bipe("pretrain", "--plan", "--json", AUTO)[1])
    assert planned["warnings"] == [] and planned["schedule"]["micro_batch"] == "auto"
    with caplog.at_level("INFO", "bipe"):
        assert bipe("pretrain", AUTO)[0] == 0
    (told,) = [text for text in caplog.messages if "micro_batch" in text]
    assert re.fullmatch(
        r"rows\.micro_batch: 2 rows at once, 2 times per step, since 4 rows would take about "
        r"[\d.]+ MB, and 85% of the [\d.]+ MB that are free \(cpu\) may be used",
        told,
    )
    run, whole = tmp_path / "bipe_rope", finished("bipe_rope")
    assert np.allclose(losses(run), losses(whole), atol=1e-5)
    assert [r["step"] for r in curve(run)] == [r["step"] for r in curve(whole)]
    stored = yaml.safe_load((run / runs.CONFIG).read_text())
    assert stored["rows"]["micro_batch"] == "auto"


def test_where_no_row_fits_one_is_tried_and_that_is_said(bipe, memory, caplog):
    memory(1000)
    out = bipe("pretrain", "--plan", "--json", AUTO)[1]
    (told,) = [text for text in json.loads(out)["warnings"] if "a step takes" in text]
    assert told.endswith("set recompute=true, or trainer=fsdp2")
    assert bipe("pretrain", AUTO, "steps=1", "validate_every=1", "schedule.warmup=0")[0] == 0
    (told,) = [text for text in caplog.messages if "micro_batch" in text]
    assert "1 row at once, 4 times per step, although 1 row would take about " in told


def test_a_number_that_was_typed_is_kept(bipe, memory, tmp_path, finished, caplog):
    memory(1000)
    assert bipe("pretrain", "rows.micro_batch=4")[0] == 0
    assert "micro_batch" not in caplog.text
    assert same_weights(tmp_path / "bipe_rope", finished("bipe_rope"))


@pytest.mark.parametrize(("others", "agreed"), [(8, 8), (2, 2), (0, 1)])
def test_ranks_agree_on_what_the_smallest_has_room_for(others, agreed, monkeypatch, caplog):
    asked = []
    monkeypatch.setattr(at_once, "free_memory", lambda *_, **given: asked.append(given) or 1 << 40)

    def reduce(own, reduce_op):
        assert reduce_op == "min"
        return torch.minimum(own, torch.tensor(others))

    strategy = SimpleNamespace(root_device=torch.device("cpu"), reduce=reduce)
    trainer = SimpleNamespace(strategy=strategy, num_devices=2, is_global_zero=True)
    with caplog.at_level("INFO", "bipe"):
        assert at_once._chosen(trainer, STEP, 8, taken=0) == agreed
    assert asked == [{"processes": 2}]
    told = {8: "", 2: "since another device has less memory", 1: "although another device has less"}
    assert told[agreed] in caplog.text and bool(caplog.text) == (agreed < 8)


GROUPS = {
    "none": ({}, math.inf),
    "2": ({"cgroup": "0::/jobs/a\n", "jobs/a/memory.max": "max\n", "jobs/a/memory.current": "70\n",
           "jobs/a/memory.stat": "inactive_file 5\n", "jobs/memory.max": "1000\n",
           "jobs/memory.current": "400\n", "jobs/memory.stat": "file 9\ninactive_file 50\n"}, 650),
    "1": ({"cgroup": "3:cpu:/x\n4:memory:/x\n", "memory/x/memory.limit_in_bytes": "900\n",
           "memory/x/memory.usage_in_bytes": "100\n",
           "memory/x/memory.stat": "inactive_file 1\ntotal_inactive_file 20\n"}, 820),
    "outside": ({"cgroup": "0::/../elsewhere\n", "memory.max": "700\n", "memory.current": "300\n",
                 "memory.stat": "inactive_file 0\n"}, 400),
    "junk": ({"cgroup": "\xff\n::\n", "meminfo": "MemAvailable:"}, math.inf),
}  # fmt: skip


@pytest.mark.parametrize("kind", GROUPS)
def test_free_memory_is_the_least_that_machine_and_groups_leave(kind, tmp_path, monkeypatch):
    files, most = GROUPS[kind]
    for name, text in {"meminfo": "MemFree: 1 kB\nMemAvailable: 3 kB\n", **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="latin-1")
    places = {"/proc/meminfo": tmp_path / "meminfo", "/proc/self/cgroup": tmp_path / "cgroup",
              "/sys/fs/cgroup": tmp_path}  # fmt: skip
    monkeypatch.setattr(
        machine, "Path", lambda first, *rest: places.get(first, Path(first)).joinpath(*rest)
    )
    found = machine.free_memory(torch.device("cpu"))
    assert found == min(most, 3072) if kind != "junk" else found > 1 << 20
    assert machine.free_memory(torch.device("cpu"), processes=3) == found // 3
    assert machine.free_memory(torch.device("meta")) is None


def test_memory_that_a_process_holds_without_using_it_is_free_on_a_gpu(monkeypatch):
    for name, value in (
        ("memory_reserved", 70),
        ("memory_allocated", 30),
        ("mem_get_info", (5, 9)),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert machine.free_memory(torch.device("cuda"), processes=4) == 45
