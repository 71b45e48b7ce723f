"""The last commits of a group in all its partitions, in 12 bytes per commit.

A thousand groups with fifty partitions each have half a million commits to remember: as objects, 100 MB. One slab per
group holds a slot of fixed size per partition, in one buffer:

    newest i64 | floor i64 | first_ms i64 | place: coordinate i64, append_ms i64, event_ms i64
    namespace u32 | tick u32 | rate f32 | oldest u8 | count u8
    intervals x (offset - floor u32 | commit_ms - first_ms u32 | lag u32)             little endian, a ring

It keeps what `CommitRing` keeps of commits that come in the order of the log, as the coordinator's do: the order itself
is implicit. `floor` is not above any offset of the window, `first_ms` not after any time. Where the window spans more
than 32 bits can tell, distances saturate: offsets 4.29e9 above the lowest one look equal, and so do lags, so a rewind
among those or a fall of such a lag can be missed; a rewind is never seen where there was none. Times more than 49 days
before the newest commit count as 49 days old. The newest offset itself is always exact.

Beside the window a slot has the place of the newest commit, as far as lag needs it again and again, and the speed of
the group, from one tick to the next.
Units: offsets; bytes; ms, Unix; rates per second.
Invariants: times do not fall; `size_bytes` is at most 200 per partition of a group with 50 or more.
Source: Burrow, in-memory storage (the rule of `min_distance_ms`).
"""

from array import array
from collections.abc import Iterator
from math import isnan, nan
from struct import Struct
from typing import Final, NamedTuple

from syncline.core.lag.commit_ring import INTERVALS, Commit
from syncline.core.lag.forecast import smoothed
from syncline.model.ids import TopicPartition
from syncline.model.lag import UNKNOWN, OffsetPlace

_HEAD: Final = Struct("<qqqqqqIIfBB")
# Of the same, what lag needs: newest, coordinate, append_ms, event_ms, namespace, count.
_NEWEST: Final = Struct("<q16xqqqI9xB")
_PLACE: Final = Struct("<qqqI")
_PLACE_AT: Final = 24
_ENTRY: Final = Struct("<III")
_ROOM: Final = _ENTRY.size
_SATURATED: Final = 2**32 - 2
_NO_LAG: Final = 2**32 - 1
_INTERVALS_MAX: Final = 255
# Slots are added one by one to a small slab and in larger steps to a large one, so that little room is unused.
_SLOTS_PER_STEP: Final = 32
# The namespace of a slot without a place.
NOWHERE: Final = 0
_make: Final = tuple.__new__
_NO_SLOTS: Final = array("i")

# Instead of a rate: there was a tick, but not two.
_NO_RATE: Final = -1.0


class _Entry(NamedTuple):
    """One commit of a window; `lag` may be `_NO_LAG`."""

    offset: int
    commit_ms: int
    lag: int


class KeptPlace(NamedTuple):
    """What a slot keeps of the place of its newest commit."""

    coordinate_bytes: int
    append_ms: int
    event_ms: int
    namespace: int
    """Under which leader, life and epoch the coordinate holds, as the caller numbers them."""


class NewestCommit(NamedTuple):
    """The newest commit of one partition."""

    key: TopicPartition
    slot: int
    offset: int
    place: KeptPlace | None


class _Head:
    """The fixed part of a slot, unpacked."""

    newest: int
    floor: int
    first_ms: int
    coordinate: int
    append_ms: int
    event_ms: int
    namespace: int
    tick: int
    rate: float
    oldest: int
    count: int

    __slots__ = (
        "append_ms",
        "coordinate",
        "count",
        "event_ms",
        "first_ms",
        "floor",
        "namespace",
        "newest",
        "oldest",
        "rate",
        "tick",
    )

    def __init__(self, buffer: bytearray, start: int) -> None:
        (
            self.newest,
            self.floor,
            self.first_ms,
            self.coordinate,
            self.append_ms,
            self.event_ms,
            self.namespace,
            self.tick,
            self.rate,
            self.oldest,
            self.count,
        ) = _HEAD.unpack_from(buffer, start)

    def write(self, buffer: bytearray, start: int) -> None:
        _HEAD.pack_into(
            buffer,
            start,
            self.newest,
            self.floor,
            self.first_ms,
            self.coordinate,
            self.append_ms,
            self.event_ms,
            self.namespace,
            self.tick,
            self.rate,
            self.oldest,
            self.count,
        )


class CommitSlab:
    """The windows of one group, one slot per partition."""

    __slots__ = ("_buffer", "_free", "_intervals", "_min_distance_ms", "_slot_bytes", "_slots", "commit_count")

    def __init__(self, intervals: int = INTERVALS, min_distance_ms: int = 0) -> None:
        assert 1 <= intervals <= _INTERVALS_MAX, f"a window of {intervals} commits"
        assert min_distance_ms >= 0, f"commits {min_distance_ms} ms apart"
        self._intervals = intervals
        self._slot_bytes = _HEAD.size + intervals * _ROOM
        self._min_distance_ms = min_distance_ms
        # Of all commits that were added, merged ones included.
        self.commit_count = 0
        self._buffer = bytearray()
        # Slots by topic and partition, -1 without one; those that are free.
        self._slots: dict[str, array[int]] = {}
        self._free: list[int] = []

    @property
    def size_bytes(self) -> int:
        """The bytes of all slots and of their index."""
        return len(self._buffer) + sum(4 * len(slots) for slots in self._slots.values())

    def slot(self, topic: str, partition: int) -> int:
        """Return the slot of a partition; an empty one if it had none.

        The partition must exist, or have existed: the index is as long as the largest number.
        """
        assert partition >= 0, f"partition {partition} of {topic}"
        slots = self._slots.get(topic)
        if slots is None:
            slots = self._slots[topic] = array("i")
        if partition >= len(slots):
            # Exactly as long as needed: an array that is extended reserves more than that.
            slots = self._slots[topic] = slots + array("i", [-1]) * (partition + 1 - len(slots))
        if slots[partition] < 0:
            slots[partition] = self._new_slot()
        return slots[partition]

    def find(self, topic: str, partition: int) -> int | None:
        """Return the slot of a partition, None if it has none."""
        slots = self._slots.get(topic)
        slot = slots[partition] if slots is not None and 0 <= partition < len(slots) else -1
        return slot if slot >= 0 else None

    def partitions(self) -> Iterator[TopicPartition]:
        """Yield the partitions that have a slot; none may come or go meanwhile."""
        for topic, slots in self._slots.items():
            yield from (TopicPartition(topic, partition) for partition, slot in enumerate(slots) if slot >= 0)

    def drop(self, topic: str, partition: int) -> None:
        """Forget a partition, if it is known: its commit was deleted or has expired."""
        slot = self.find(topic, partition)
        if slot is None:
            return
        slots = self._slots[topic]
        slots[partition] = -1
        self._free.append(slot)
        if max(slots) < 0:
            del self._slots[topic]

    def add(self, slot: int, offset: int, commit_ms: int, end: int | None) -> None:
        """Add the group's next commit, made while the log's newest known end was `end`; None if no end is known yet.

        Burrow drops commits without a known end. They are kept here, so that a new coordinator that replays the log
        has windows at once; `end_known` gives them the lag that Burrow would give them. Clients may commit any offset,
        also a negative one, which is kept as it is.
        """
        self.commit_count += 1
        start = self._start(slot)
        head = _Head(self._buffer, start)
        last = self._entry(head, start, head.count - 1) if head.count else None
        is_merged = False
        if last is not None and commit_ms - last.commit_ms < self._min_distance_ms:
            is_merged, commit_ms = True, last.commit_ms
        entry = _Entry(offset, commit_ms, _NO_LAG if end is None else min(max(0, end - offset), _SATURATED))
        if not head.count or not self._fits(head, entry):
            self._rebase(head, start, entry)
        if is_merged:
            head.count -= 1
        elif head.count == self._intervals:
            head.oldest = (head.oldest + 1) % self._intervals
            head.count -= 1
        self._put(head, start, head.count, entry)
        if head.newest != offset:
            head.namespace = NOWHERE
        head.newest = offset
        head.count += 1
        head.write(self._buffer, start)

    def end_known(self, slot: int, end: int) -> None:
        """Give commits that were added before any end was known their lag: up to `end`, the first that is known."""
        start = self._start(slot)
        head = _Head(self._buffer, start)
        for index in range(head.count):
            entry = self._entry(head, start, index)
            if entry.lag == _NO_LAG:
                lag = min(max(0, end - entry.offset), _SATURATED)
                self._put(head, start, index, entry._replace(lag=lag))

    def commits(self, slot: int) -> list[Commit | None]:
        """Return the window, oldest first and blanks before it; orders and times of observation are unknown: -1."""
        start = self._start(slot)
        head = _Head(self._buffer, start)
        first = start + _HEAD.size
        ring = list(_ENTRY.iter_unpack(self._buffer[first : first + self._intervals * _ROOM]))
        in_order = (ring[head.oldest :] + ring[: head.oldest])[: head.count]
        window = [
            Commit(head.floor + above, UNKNOWN, head.first_ms + later_ms, UNKNOWN, None if lag == _NO_LAG else lag)
            for above, later_ms, lag in in_order
        ]
        if window:
            # Exact also where its distance from the floor is saturated.
            window[-1] = window[-1]._replace(offset=head.newest)
        return [*[None] * (self._intervals - len(window)), *window]

    def newest(self, slot: int) -> tuple[int, int] | None:
        """Return the newest commit's offset and time; None without commits."""
        start = self._start(slot)
        head = _Head(self._buffer, start)
        return (head.newest, self._entry(head, start, head.count - 1).commit_ms) if head.count else None

    # All newest commits, quickly: a thousand groups are looked at within a second

    def offsets(self) -> "array[int]":
        """Return the newest offset of each slot, -1 of one without a commit."""
        whole = self._slot_bytes
        starts = range(0, len(self._buffer), whole)
        newest = (_NEWEST.unpack_from(self._buffer, start) for start in starts)
        return array("q", [offset if count and offset >= 0 else UNKNOWN for offset, *_, count in newest])

    def batches(self, length: int) -> Iterator[list[NewestCommit]]:
        """Yield the newest commits of all partitions, at most `length` of one topic at once.

        Commits below 0 are left out: clients may commit any offset, and these are none. The slab may change between two
        batches; what is dropped or added meanwhile may be missing.
        """
        assert length > 0, f"batches of {length} partitions"
        for topic in tuple(self._slots):
            first = 0
            while first < len(slots := self._slots.get(topic, _NO_SLOTS)):
                chosen = range(first, min(first + length, len(slots)))
                yield list(_newest_of(topic, slots, chosen, self._buffer, self._slot_bytes))
                first += length

    def place(self, slot: int) -> KeptPlace | None:
        """Return where the newest commit lies; None if that is not known."""
        head = _Head(self._buffer, self._start(slot))
        if head.namespace == NOWHERE:
            return None
        return KeptPlace(head.coordinate, head.append_ms, head.event_ms, head.namespace)

    def set_place(self, slot: int, place: OffsetPlace, namespace: int) -> None:
        """Keep where the newest commit lies; without effect if the group has committed another offset meanwhile."""
        assert namespace > NOWHERE, f"a place in namespace {namespace}"
        start = self._start(slot)
        newest, *_, count = _NEWEST.unpack_from(self._buffer, start)
        if count and newest == place.offset:
            # Only these, in place: after a refresh all groups get theirs at once.
            values = (place.coordinate_bytes, place.append_ms, place.event_ms, namespace)
            _PLACE.pack_into(self._buffer, start + _PLACE_AT, *values)

    def tick(self, slot: int, elapsed_ms: int) -> None:
        """Measure how far the group came since the last tick, `elapsed_ms` ago; the first tick only remembers."""
        start = self._start(slot)
        head = _Head(self._buffer, start)
        if not head.count:
            return
        if isnan(head.rate):
            rate = None
        else:
            # Of the offset at the last tick, the low 32 bits are kept: no group reads 2^31 records between two ticks.
            advance = (head.newest - head.tick + 2**31) % 2**32 - 2**31
            rate = smoothed(head.rate if head.rate >= 0 else None, advance, elapsed_ms)
        head.rate = _NO_RATE if rate is None else rate
        head.tick = head.newest % 2**32
        head.write(self._buffer, start)

    def rate_per_s(self, slot: int) -> float | None:
        """Return how many offsets per second the group advances; None before two ticks, and just after a rewind."""
        rate = _Head(self._buffer, self._start(slot)).rate
        return rate if rate >= 0 else None

    def check_invariants(self) -> None:
        """Assert that each slot has one owner, and that times do not fall."""
        taken = [slot for slots in self._slots.values() for slot in slots if slot >= 0]
        assert sorted([*taken, *self._free]) == list(range(len(taken) + len(self._free))), f"slots {taken} are in use"
        for slot in taken:
            times = [commit.commit_ms for commit in self.commits(slot) if commit is not None]
            assert times == sorted(times), f"times of slot {slot} fall: {times}"

    def _new_slot(self) -> int:
        if not self._free:
            size = self._slot_bytes
            count = len(self._buffer) // size
            added = max(1, count // _SLOTS_PER_STEP)
            # A buffer that is extended reserves an eighth more.
            self._buffer = self._buffer + bytes(added * size)
            self._free = list(range(count + added - 1, count - 1, -1))
        slot = self._free.pop()
        start = self._start(slot)
        _HEAD.pack_into(self._buffer, start, 0, 0, 0, 0, 0, 0, NOWHERE, 0, nan, 0, 0)
        return slot

    def _start(self, slot: int) -> int:
        start = slot * self._slot_bytes
        assert 0 <= start < len(self._buffer), f"there is no slot {slot}"
        return start

    def _at(self, head: _Head, start: int, index: int) -> int:
        return start + _HEAD.size + (head.oldest + index) % self._intervals * _ROOM

    def _entry(self, head: _Head, start: int, index: int) -> _Entry:
        above, later_ms, lag = _ENTRY.unpack_from(self._buffer, self._at(head, start, index))
        offset = head.newest if index == head.count - 1 else head.floor + above
        return _Entry(offset, head.first_ms + later_ms, lag)

    def _put(self, head: _Head, start: int, index: int, entry: _Entry) -> None:
        above = min(entry.offset - head.floor, _SATURATED)
        _ENTRY.pack_into(self._buffer, self._at(head, start, index), above, entry.commit_ms - head.first_ms, entry.lag)

    @staticmethod
    def _fits(head: _Head, entry: _Entry) -> bool:
        """Return whether floor and first time serve for the next entry, too."""
        above, later_ms = entry.offset - head.floor, entry.commit_ms - head.first_ms
        return 0 <= above <= _SATURATED and 0 <= later_ms <= _SATURATED

    def _rebase(self, head: _Head, start: int, entry: _Entry) -> None:
        """Choose floor and first time anew, for the window and the entry that comes next."""
        window = [self._entry(head, start, index) for index in range(head.count)]
        earliest_ms = window[0].commit_ms if window else entry.commit_ms
        head.first_ms = max(earliest_ms, entry.commit_ms - _SATURATED)
        head.floor = min(each.offset for each in (*window, entry))
        for index, each in enumerate(window):
            self._put(head, start, index, each._replace(commit_ms=max(each.commit_ms, head.first_ms)))


def _newest_of(
    topic: str, slots: "array[int]", partitions: range, buffer: bytearray, slot_bytes: int
) -> Iterator[NewestCommit]:
    for partition in partitions:
        slot = slots[partition]
        if slot < 0:
            continue
        offset, coordinate, append_ms, event_ms, namespace, count = _NEWEST.unpack_from(buffer, slot * slot_bytes)
        if count and offset >= 0:
            place = None
            if namespace != NOWHERE:
                place = _make(KeptPlace, (coordinate, append_ms, event_ms, namespace))
            yield _make(NewestCommit, (_make(TopicPartition, (topic, partition)), slot, offset, place))
