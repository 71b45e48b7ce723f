"""Who got the bytes of a quota that a list shares out: replicas, and the moves that add them.

A replica that is held back waits for others that get the same quota. Which ones they are is what an operator asks, so
they are counted between two samples of the journal, per replica. While nothing is held back nothing is counted: a list
that stays may name all replicas, also of topics that come and go.

Units: bytes of records.
"""

from collections.abc import Mapping
from typing import Final

from syncline.model.events import Json
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.metadata import PartitionRecord

# The replicas that a sample names.
ROWS_MAX: Final = 10


class Taken:
    """The bytes that each replica got since the last question."""

    __slots__ = ("_bytes", "_is_counting")

    def __init__(self) -> None:
        # The last of the three is the move that adds the replica: "" if it has no id, None if nothing adds the replica.
        self._bytes: dict[tuple[TopicPartition, BrokerId, str | None], int] = {}
        self._is_counting = False

    def __len__(self) -> int:
        return len(self._bytes)

    def begin(self) -> None:
        """Count from now on: a replica waits."""
        self._is_counting = True

    def end(self) -> None:
        """Stop counting."""
        self._is_counting = False
        self._bytes = {}

    def note(self, key: TopicPartition, receiver: BrokerId, record: PartitionRecord | None, size_bytes: int, /) -> None:
        """Count what the replica of `receiver` got, if any replica waits."""
        assert size_bytes >= 0, f"{key} of {receiver} got {size_bytes} bytes"
        if not self._is_counting:
            return
        is_added = record is not None and receiver in record.adding
        name = (key, receiver, record.move if is_added and record is not None else None)
        self._bytes[name] = self._bytes.get(name, 0) + size_bytes

    def take(self) -> tuple[Mapping[str, Json], ...]:
        """Return a row for each replica that got most since the last call: name, bytes, and the move that adds it."""
        counted, self._bytes = self._bytes, {}
        most = sorted(counted.items(), key=lambda item: (-item[1], item[0][:2]))[:ROWS_MAX]
        return tuple(_row(f"{key}@{receiver}", size_bytes, move) for (key, receiver, move), size_bytes in most)


def _row(replica: str, size_bytes: int, move: str | None) -> Mapping[str, Json]:
    row: dict[str, Json] = {"replica": replica, "bytes": size_bytes}
    return row if move is None else {**row, "move": move}
