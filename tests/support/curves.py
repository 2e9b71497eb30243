"""TensorBoard's curves as TensorBoard shows them."""

from __future__ import annotations

import struct
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog


def curve(folder: Path, tag: str) -> dict[int, float]:
    """The values of one run by their update, in the order in which they are in the files.

    A session that starts at an update takes back what there is from that update on, as TensorBoard's readers do it.
    """
    values: dict[int, float] = {}
    for path in sorted(
        folder.glob("events.out.tfevents.*"), key=lambda path: (path.name.split(".")[3], path.stat().st_mtime_ns)
    ):
        for event in events(path):
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                values = {update: value for update, value in values.items() if update < event.step}
            for value in event.summary.value:
                if value.tag == tag:
                    assert event.step not in values, f"two values of {tag} at {event.step}"
                    values[event.step] = value.simple_value
    return values


def events(path: Path) -> list[Event]:
    """The events of one file; the last may be cut, where its process was killed."""
    data, found, place = path.read_bytes(), [], 0
    while place + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        end = place + 12 + length
        if end + 4 > len(data):
            break
        found.append(Event.FromString(data[place + 12 : end]))
        place = end + 4
    return found
