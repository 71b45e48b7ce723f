"""Small text files beside the logs: their formats, and how they are read and written.

One hard idea: a checkpoint is either whole or refused. A truncated file must not
pass for a short one, so each states how many lines follow. An unreadable
checkpoint is an error if nothing else holds its facts, and counts as absent if
the log itself does.

Formats are Kafka's. Offset checkpoints (`replication-`, `recovery-point-` and
`log-start-offset-checkpoint`): "0", the number of entries, then
`topic partition offset` each. `leader-epoch-checkpoint`: the same with
`epoch start`. `partition.metadata`: `version: 0` and `topic_id: <base64>`.
"""

import base64
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from syncline.model.ids import LeaderEpoch, Offset, TopicPartition, uuid_text
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError

VERSION: Final = "0"
METADATA_FILE: Final = "partition.metadata"


class CheckpointError(StorageError):
    """A checkpoint file is damaged; the message names the file and the problem."""


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """Return the contents of an offset checkpoint."""
    lines = [VERSION, str(len(offsets))]
    lines.extend(f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items())
    return "\n".join(lines).encode() + b"\n"


def decode_offsets(path: str, data: bytes) -> dict[TopicPartition, Offset]:
    """Return the entries of an offset checkpoint; an empty file has none. Raises CheckpointError."""
    offsets: dict[TopicPartition, Offset] = {}
    for line in _entries(path, data):
        fields = line.split(" ")
        try:
            topic, partition, offset = fields
            offsets[TopicPartition(topic, int(partition))] = Offset(int(offset))
        except ValueError:
            raise CheckpointError(f"{path}: expected 'topic partition offset', found {line!r}") from None
    return offsets


def encode_epochs(entries: Iterable[tuple[LeaderEpoch, Offset]]) -> bytes:
    """Return the contents of a leader epoch checkpoint."""
    lines = [f"{leader_epoch} {start_offset}" for leader_epoch, start_offset in entries]
    return "\n".join([VERSION, str(len(lines)), *lines]).encode() + b"\n"


def decode_epochs(path: str, data: bytes) -> list[tuple[LeaderEpoch, Offset]]:
    """Return (epoch, start offset) of a leader epoch checkpoint. Raises CheckpointError."""
    entries: list[tuple[LeaderEpoch, Offset]] = []
    for line in _entries(path, data):
        try:
            leader_epoch, start_offset = map(int, line.split(" "))
        except ValueError:
            raise CheckpointError(f"{path}: expected 'epoch offset', found {line!r}") from None
        if leader_epoch < 0 or start_offset < 0:
            raise CheckpointError(f"{path}: neither epochs nor offsets are negative, found {line!r}")
        entries.append((LeaderEpoch(leader_epoch), Offset(start_offset)))
    return entries


def _entries(path: str, data: bytes) -> list[str]:
    """Return the lines after the version and the count."""
    if not data:
        return []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: is no text") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines[0] != VERSION:
        raise CheckpointError(f"{path}: version {VERSION} expected, found {lines[0][:20]!r}")
    if len(lines) < 2 or not lines[1].isdecimal():
        raise CheckpointError(f"{path}: the second line should say how many entries follow")
    if lines[1] != str(len(lines) - 2):
        raise CheckpointError(f"{path}: {lines[1]} entries expected, {len(lines) - 2} found")
    return lines[2:]


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Return the contents of `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> UUID | None:
    """Return the topic id, None if the file is damaged."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        raw = base64.urlsafe_b64decode(fields["topic_id"] + "==")
    except (ValueError, KeyError):
        return None
    return UUID(bytes=raw) if len(raw) == 16 else None


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Return the contents of a `.properties` file; entries keep their order."""
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the entries of a `.properties` file; skip comments and lines that are no entry."""
    lines = (line.strip() for line in data.decode(errors="replace").splitlines())
    entries = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in entries}


def encode_clean_mark(broker_epoch: int) -> bytes:
    """Return the contents of `.kafka_cleanshutdown`."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_mark(data: bytes) -> int:
    """Return the broker epoch of a clean stop, -1 if the mark does not contain one."""
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1


class CheckpointFile:
    """One checkpoint on a disk, written from the loop or by a worker; old contents never replace newer ones.

    This order of steps must do no harm: the loop collects offsets and hands them to a
    worker; the loop has to lower one of them and writes the file itself; the worker
    starts to write. So writes are numbered, and a write with an outdated number is skipped.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._lock = threading.Lock()
        self._requested = 0
        self._written = 0

    def read(self) -> bytes:
        """Return the contents, empty if there is no file."""
        try:
            return self._disk.read_file(self.path)
        except FileNotFoundError:
            return b""

    def write(self, data: bytes) -> None:
        """Replace the contents; they are safe on return."""
        self._requested += 1
        self._replace(self._requested, data)

    def write_later(self, make: Callable[[], bytes], done: Callable[[Exception | None], None]) -> None:
        """Replace the contents without waiting, by what `make` returns in the worker."""
        self._requested += 1
        number = self._requested
        self._disk.run_later(lambda: self._replace(number, make()), done)

    def _replace(self, number: int, data: bytes) -> None:
        with self._lock:
            if number < self._written:
                return
            self._disk.replace_file(self.path, data)
            self._written = number
