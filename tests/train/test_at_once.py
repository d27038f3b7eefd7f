"""rows.micro_batch=auto: as many rows at once as fit, and the same training whatever that is."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.live_bytes import LiveBytes
from tests.train.studies import curve, indices_seen, losses, pretrain, same_weights, weights
from train.data.rows.choices import uneven
from train.fit import machine, runs
from train.fit.parallel import at_once

AUTO = "rows.micro_batch=auto"


@given(
    share=st.integers(1, 200), fixed=st.integers(0, 9), row=st.integers(1, 9), room=st.integers()
)
def test_the_choice_is_the_largest_divisor_of_the_share_that_fits(share, fixed, row, room):
    chosen = at_once.largest_share(share, lambda n: fixed + n * row <= room)
    divisors = [n for n in range(1, share + 1) if share % n == 0]
    assert chosen == max((n for n in divisors if fixed + n * row <= room), default=0)


@given(fixed=st.integers(0, 10**12), row=st.integers(0, 10**10), first=st.integers(0, 10**12))
def test_two_trials_after_a_first_one_say_what_a_row_takes(fixed, row, first):
    peaks = iter([first, fixed + row, fixed + 2 * row])
    rows = []
    found = at_once.measured(lambda n: (rows.append(n), next(peaks))[1])
    assert (found.fixed, found.row, rows) == (fixed, row, [1, 1, 2])


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


@pytest.mark.parametrize(("tokens", "rows"), [(256, 4), (255, 2), (127, 1), (1, 1)])
def test_on_a_cpu_the_tokens_at_once_are_bounded(tokens, rows, smoke, finished, monkeypatch):
    monkeypatch.setattr(at_once, "TOKENS", tokens)
    run, whole = pretrain(*smoke, AUTO), finished("bipe_rope")
    assert np.allclose(losses(run), losses(whole), atol=1e-5)
    fixed = pretrain(*smoke, f"rows.micro_batch={rows}", "name=fixed")
    assert same_weights(run, fixed) and curve(run) == curve(fixed)
    assert yaml.safe_load((run / runs.CONFIG).read_text())["rows"]["micro_batch"] == "auto"


@pytest.fixture
def device(monkeypatch):
    """A stand-in for the counters of a GPU: the bytes of live tensors; what trials measured."""
    live, sizes, measured = LiveBytes(), [], at_once.measured

    def noted(trial):
        sizes.append(measured(trial))
        sizes.append(trial(4))
        return sizes[0]

    def with_free(free):
        counters = at_once.Counters(
            reset=live.begin, peak=lambda: live.peak, taken=lambda: live.now, free=free
        )
        monkeypatch.setattr(at_once, "counters_of", lambda device: counters)
        return live

    monkeypatch.setattr(at_once, "measured", noted)
    return with_free, sizes


@pytest.mark.parametrize("encoding", ["bipe_rope", "bipe_alibi", "alibi"])
def test_trials_measure_what_rows_take_and_leave_nothing(encoding, smoke, device, caplog):
    """With room for two of four rows, the training is that of two rows, bit for bit."""
    with_free, sizes = device
    words = (*smoke[:2], f"encoding={encoding}", "positions=pose", "row_length=128", "seed=3")
    fixed = pretrain(*words, "rows.micro_batch=2", "name=fixed")

    def free():
        parameters = 8 * sum(value.size for value in weights(fixed).values())
        room = sizes[0].fixed + 3 * sizes[0].row + parameters
        return (room - live.now) / at_once.USABLE

    with (live := with_free(free)), caplog.at_level("INFO", "bipe"):
        run = pretrain(*words, AUTO)
    assert same_weights(run, fixed) and curve(run) == curve(fixed)
    assert indices_seen(run) == indices_seen(fixed)
    assert sizes[0].fixed + 4 * sizes[0].row == pytest.approx(sizes[1], rel=0.05)
    (text,) = [text for text in caplog.messages if "micro_batch" in text]
    assert text.startswith("rows.micro_batch: 2 rows at once, 2 times per step: each row takes ")


def test_where_no_row_fits_one_is_tried_and_the_cure_is_named(smoke, device, caplog):
    with device[0](lambda: 0):
        run = pretrain(*smoke, AUTO, "steps=1", "validate_every=1", "schedule.warmup=0")
    (text,) = [text for text in caplog.messages if "micro_batch" in text]
    assert "1 row at once, 4 times per step" in text and "recompute=true" in text
    assert len(curve(run)) == 1


def test_a_number_that_was_typed_is_kept(smoke, device, finished, caplog):
    with device[0](lambda: 0):
        run = pretrain(*smoke, "rows.micro_batch=4")
    assert "micro_batch" not in caplog.text and same_weights(run, finished("bipe_rope"))


@pytest.mark.parametrize(("other", "agreed"), [(8, 4), (2, 2), (0, 1)])
def test_ranks_agree_on_what_the_smallest_has_room_for(other, agreed, monkeypatch, caplog):
    def reduce(number, reduce_op):
        assert reduce_op == "min"
        return torch.minimum(number, torch.tensor(other))

    monkeypatch.setattr(at_once, "state_bytes", lambda *_: 5)
    strategy = SimpleNamespace(root_device=torch.device("cpu"), reduce=reduce)
    trainer = SimpleNamespace(strategy=strategy, is_global_zero=True)
    module = SimpleNamespace(options=SimpleNamespace(optimizer=None), model=torch.nn.Linear(2, 2))
    counters = at_once.Counters(
        reset=None, peak=None, taken=lambda: 100, free=lambda: 100 / at_once.USABLE
    )
    sizes = at_once.Measured(fixed=95, row=20)  # 4 rows take 175, and 195 are there
    assert at_once.chosen_rows(trainer, module, sizes, counters, share=8) == agreed
    assert any(r.levelname == "WARNING" for r in caplog.records) == (agreed == 1)


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
