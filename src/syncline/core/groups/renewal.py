"""Renewal of a group log: what still counts of its oldest records is written again at its end, so that they can go.

The state of a partition's groups is the last value of each key. So a record is of no use once a later one has its
key, and a log that only grows makes each coordinator's start longer. A renewal copies the records below an offset,
`begin`, that are the last of their keys; when all that the log has then is committed, it may start at `begin`.
Deletions below `begin` go with what they deleted.

One hard idea: a copy must never follow a newer record of its key, or it would bring an old value back. So the
coordinator says which keys it writes while a renewal is under way, before each append; such a key has a newer record
above `begin` and needs no copy. If one of these writes fails, that is no longer so, and the renewal is given up. And
as long as one may still be lost with the leadership, the log must not start at `begin`.

Invariant: from any offset up to `begin`, the log with the copies has the same last value of each key as before.
Source: the cleaning of logs by copying forward (Rosenblum and Ousterhout, 1992); Kafka compacts this topic instead.
"""

from syncline.core.groups.records import GroupRecord
from syncline.model.ids import Offset


class Renewal:
    """The records of one group log below an offset that are still to be copied."""

    __slots__ = ("_is_read", "_last", "_written", "begin")

    def __init__(self, begin: Offset) -> None:
        self.begin = begin
        self._last: dict[bytes, bytes] = {}
        self._written: set[bytes] = set()
        self._is_read = False

    def __repr__(self) -> str:
        return f"Renewal({len(self._last)} keys below {self.begin})"

    def read(self, offset: int, key: bytes, value: bytes | None) -> None:
        """Take a record of the log into account, in log order, from the log start on."""
        assert not self._is_read, f"{self!r} reads offset {offset} after it has copied"
        if key in self._written:
            return
        if offset >= self.begin or value is None:
            self._last.pop(key, None)
        else:
            self._last[key] = value

    def written(self, key: bytes) -> None:
        """Forget a key of which a newer record is about to be appended."""
        self._written.add(key)
        self._last.pop(key, None)

    def take(self, bytes_max: int) -> tuple[GroupRecord, ...]:
        """Return the next records to append, at least one while there are any; all that was to be read has been."""
        self._is_read = True
        taken: list[GroupRecord] = []
        size_bytes = 0
        # From the end of the dict: its first key would be looked for behind all that have gone.
        while self._last:
            key, value = self._last.popitem()
            size_bytes += len(key) + len(value)
            if taken and size_bytes > bytes_max:
                self._last[key] = value
                break
            taken.append(GroupRecord(key, value))
        return tuple(taken)
