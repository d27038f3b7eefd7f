"""Ranks that watch each other: what one of them suffers, all of them end by."""

import os
import signal
import socket
import sys

import pytest

from tests.processes import PIPE, Popen
from train.fit.parallel import peers

LIMIT_S = 200
RANK = """
import json, sys, time
from pathlib import Path
from train.fit.parallel.peers import Peers

rank, place = int(sys.argv[1]), Path(sys.argv[2])

def share(value):
    if rank == 0:
        place.with_suffix(".new").write_text(json.dumps(value))
        place.with_suffix(".new").rename(place)
    while not place.exists():
        time.sleep(0.01)
    return json.loads(place.read_text())

peers = Peers(rank=rank, world=3, share=share)
print("met", flush=True)
doing = sys.stdin.readline().strip()
if doing == "hold the lock of Python":
    import ctypes
    ctypes.PyDLL(None).sleep(4)
elif doing == "fail":
    peers.failed(ValueError("no room on the disk\\nmore"), status=2)
    sys.exit(2)
elif doing == "fail since another is gone":
    peers.failed(RuntimeError("Connection closed by peer"), status=1)
    sys.exit("a traceback")
elif doing == "wait":
    time.sleep(600)
peers.close()
"""


@pytest.fixture
def ranks(tmp_path):
    """Three processes that have met; each does what it reads."""
    environment = os.environ | {"MASTER_ADDR": "localhost"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), PIPE)
    words = [sys.executable, "-c", RANK]
    made = [
        Popen([*words, f"{rank}", tmp_path / "place"], env=environment | {"LOCAL_RANK": f"{rank}"},
              text=True, **pipes)
        for rank in range(3)
    ]  # fmt: skip
    for rank in made:
        assert rank.stdout.readline() == "met\n"
    yield made
    for rank in made:
        rank.kill()
        rank.communicate()


def told(ranks, *doing):
    """The status and the messages of each rank that was told what to do."""
    for rank, words in zip(ranks, doing, strict=True):
        rank.stdin.write(f"{words}\n")
        rank.stdin.flush()
    return lambda rank: (rank.wait(LIMIT_S), rank.stderr.read())


def test_ranks_that_leave_in_order_say_nothing(ranks):
    ended = told(ranks, "leave", "leave", "leave")
    assert [ended(rank) for rank in ranks] == [(0, "")] * 3


@pytest.mark.parametrize(
    ("victim", "others"), [(1, "wait"), (1, "fail since another is gone"), (0, "wait")]
)
def test_a_killed_rank_is_named_once_and_ends_the_others(ranks, victim, others):
    ended = told(ranks, others, "wait", others)
    ranks[victim].send_signal(signal.SIGKILL)
    status, message = ended(ranks[1 - victim])
    assert status == 75
    assert f", pid {ranks[victim].pid}) was killed, or its machine was lost" in message
    assert message.strip().count("\n") == 0 and message.startswith(f"\nbipe: rank {victim} (")
    assert ended(ranks[2]) == (75, "")


def test_an_error_of_one_rank_ends_the_others_with_its_message(ranks):
    ended = told(ranks, "wait", "wait", "fail")
    status, message = ended(ranks[0])
    assert status == 2
    assert f"pid {ranks[2].pid}) ended by an error: ValueError: no room on the disk;" in message
    assert ended(ranks[1]) == (2, "")


def test_a_busy_rank_and_a_halted_one_are_not_taken_for_dead(ranks):
    ended = told(ranks, "leave", "hold the lock of Python", "hold the lock of Python")
    ranks[2].send_signal(signal.SIGSTOP)
    assert ended(ranks[1]) == (0, "")
    ranks[2].send_signal(signal.SIGCONT)
    assert [ended(ranks[0]), ended(ranks[2])] == [(0, ""), (0, "")]


@pytest.mark.parametrize(
    ("sent", "who"),
    [
        (b"", None),
        (b"GET / HTTP/1.1\n", None),
        (b"[1]\n", None),
        (b'{"rank": 1, "key": "other"}\n', None),
        (b"[" * 5000, None),
        (b'{"rank": 1, "key": "key"}\n', {"rank": 1}),
    ],
)
def test_a_stranger_at_the_door_is_no_rank(sent, who):
    here, there = socket.socketpair()
    with here, there:
        there.sendall(sent)
        there.shutdown(socket.SHUT_WR)
        assert peers._greeting(here, "key") == who


def test_a_stranger_that_says_nothing_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(peers, "_GREETING", 0.05)
    here, there = socket.socketpair()
    with here, there:
        assert peers._greeting(here, "key") is None
