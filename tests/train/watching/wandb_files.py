"""What wandb keeps of its runs while it is offline."""

import json
import struct


def wandb_records(folder):
    """What the offline runs of a folder hold, in the order of their starts."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        yield from map(Record.FromString, _journal(file.read_bytes()))


def wandb_id(run):
    return json.loads((run / "loggers" / "wandb.json").read_text())["id"]


def _journal(data):
    """The records of a file in LevelDB's log format, after wandb's header of 7 bytes."""
    place, held = 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        held += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield held
            held = b""


def wandb_steps(folder):
    found = [r.history for r in wandb_records(folder) if r.WhichOneof("record_type") == "history"]
    names = [[item.key or "/".join(item.nested_key) for item in each.item] for each in found]
    return [each.step.num for each, own in zip(found, names, strict=True) if "train/loss" in own]
