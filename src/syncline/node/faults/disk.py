"""A disk that can be made slow, stuck or failing: the Disk port in front of another one.

One hard idea: as long as no rule selects a file, its calls are the inner file's own bound methods, so that a broker
with fault injection enabled is as fast as one without. A rule replaces the methods of the files that it selects.

A fault has the effect that such a disk would have on this broker:

- a slow *read* is "not in memory": `read_resident` returns None, and `read_later` is delayed, while the event loop
  continues;
- a *miss* is a read that does not find all of its bytes in memory: its worker waits after it, as it would for a disk,
  so that other work may have to wait for a worker. Reads from memory are not delayed;
- a *write*, and a synchronous *sync*, blocks the calling thread, which for appends is the event loop: a broker whose
  disk accepts no writes stops;
- a failure is an OSError.

Hints for the page cache are not struck: nothing waits for them.

Several reads through one handle (a worker that searches a segment) wait once, not once per read.

A file's directory names its partition: "orders-3" holds partition 3 of orders. Only rules without a topic strike files
elsewhere (checkpoints, the broker's own files).
"""

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.faults.names import DISK_FAIL, DISK_SLOW, DISK_STUCK, MISS, READ, SYNC, WRITE
from syncline.records.buffers import Buffer, FileRange
from syncline.storage.disk import UNMEASURED, Disk, File, Lock, Residency

if TYPE_CHECKING:
    from syncline.node.faults.rules import Rule

Result = TypeVar("Result")
Block = Callable[[float], object]

# How often a waiting thread checks whether it may continue.
STEP_S: Final = 0.02


class FaultyDisk:
    """A disk and the rules that strike it."""

    def __init__(
        self, inner: Disk, log_directory: str, loop: asyncio.AbstractEventLoop, clock: Clock, block: Block
    ) -> None:
        self._inner = inner
        self._log_directory = log_directory
        self._loop = loop
        self._clock = clock
        # Blocks the calling thread for this many seconds, as a disk does.
        self._block = block
        self._loop_thread = threading.get_ident()
        # Worker threads open files, too.
        self._lock = threading.Lock()
        self._is_closed = False
        self._rules: tuple[Rule, ...] = ()
        self._files: weakref.WeakSet[FaultyFile] = weakref.WeakSet()
        self._held: dict[object, tuple[Rule, Callable[[], None], asyncio.TimerHandle | None]] = {}
        self.on_struck: Callable[[Rule], None] = _ignore
        self.rename = inner.rename
        self.remove = inner.remove
        self.remove_tree = inner.remove_tree
        self.make_directory = inner.make_directory
        self.list = inner.list
        self.exists = inner.exists
        self.free_bytes = inner.free_bytes
        self.boot_id = inner.boot_id

    def cache_memory_bytes(self) -> int:
        """Return how much memory the pages of files may take."""
        return self._inner.cache_memory_bytes()

    def set_rules(self, rules: "Sequence[Rule]") -> None:
        """Apply these rules from now on."""
        with self._lock:
            self._rules = tuple(rules)
            # order-free: each file gets the same rules
            files = list(self._files)
        for file in files:
            file.set_rules(self._rules)

    def close(self) -> None:
        """Drop held operations and release blocked threads: the broker is stopping."""
        self._is_closed = True
        for _, _, timer in self._held.values():
            if timer is not None:
                timer.cancel()
        self._held.clear()

    def strike(self, rules: "Sequence[Rule]", partition: TopicPartition | None, direction: str) -> "Rule | None":
        """Return the rule that strikes this operation, counted; called in any thread."""
        with self._lock:
            for rule in rules:
                if rule.selects_file(partition, direction) and rule.strikes():
                    break
            else:
                return None
        self._loop.call_soon_threadsafe(self.on_struck, rule)
        return rule

    def wait(self, rule: "Rule", path: str) -> None:
        """Delay, block or fail the operation, in the calling thread."""
        if rule.kind == DISK_FAIL:
            raise rule.os_error(path)
        until_ms = rule.until_ms
        if rule.kind != DISK_STUCK:
            assert rule.kind == DISK_SLOW, f"faults of kind {rule.kind} have no effect on disks"
            late_ms = self._clock.mono_ms() + rule.delay_ms
            until_ms = late_ms if until_ms is None else min(late_ms, until_ms)
        elif until_ms is None and threading.get_ident() == self._loop_thread:
            # Blocking this thread would make the rule endless: this thread handles the request that clears it.
            return
        while not (rule.is_lifted or self._is_closed) and (
            until_ms is None or (left_ms := until_ms - self._clock.mono_ms()) > 0
        ):
            self._block(STEP_S if until_ms is None else min(STEP_S, left_ms / 1_000))

    def postpone(self, rule: "Rule", go_on: Callable[[], None], fail: Callable[[OSError], None], path: str) -> None:
        """Delay, hold or fail the operation, while the loop continues."""
        if rule.kind == DISK_FAIL:
            self._loop.call_soon(fail, rule.os_error(path))
            return
        key = object()
        timer = None
        if rule.kind != DISK_STUCK:
            assert rule.kind == DISK_SLOW, f"faults of kind {rule.kind} have no effect on disks"
            timer = self._loop.call_later(rule.delay_ms / 1_000, self._go_on, key)
        self._held[key] = (rule, go_on, timer)

    def _go_on(self, key: object) -> None:
        _, go_on, timer = self._held.pop(key)
        if timer is not None:
            timer.cancel()
        go_on()

    def lift(self, rule: "Rule") -> None:
        """Continue the operations that this rule holds."""
        for key in [key for key, (holder, _, _) in self._held.items() if holder is rule]:
            self._go_on(key)

    def partition_of(self, path: str) -> TopicPartition | None:
        """Return the partition in whose directory a file is; None for other files."""
        parent, _, directory = path.rpartition("/")[0].rpartition("/")
        topic, _, number = directory.rpartition("-")
        if parent != self._log_directory or not topic or not number.isdecimal():
            return None
        return TopicPartition(topic, int(number))

    def open(self, path: str, *, create: bool = False) -> "FaultyFile":
        """Open a file to which rules apply."""
        file = FaultyFile(self, self._inner.open(path, create=create), self.partition_of(path))
        with self._lock:
            self._files.add(file)
            rules = self._rules
        if rules:
            file.set_rules(rules)
        return file

    def read_file(self, path: str) -> bytes:
        """Read a whole file."""
        self._meet(path, READ)
        return self._inner.read_file(path)

    def replace_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Write a whole file."""
        self._meet(path, WRITE)
        if sync:
            self._meet(path, SYNC)
        self._inner.replace_file(path, data, sync=sync)

    def sync_directory(self, path: str) -> None:
        """Sync the names in a directory."""
        self._meet(f"{path}/", SYNC)
        self._inner.sync_directory(path)

    def lock(self, path: str) -> Lock:
        """Take a lock file."""
        return self._inner.lock(path)

    def run_later(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Run `work` off the loop."""
        self._inner.run_later(work, done)

    def _meet(self, path: str, direction: str) -> None:
        rules = self._rules
        if rules and (rule := self.strike(rules, self.partition_of(path), direction)) is not None:
            self.wait(rule, path)


class FaultyFile:
    """An open file and the rules that strike it."""

    def __init__(self, disk: FaultyDisk, inner: File, partition: TopicPartition | None) -> None:
        self._disk = disk
        self._inner = inner
        self._partition = partition
        self._rules: tuple[Rule, ...] = ()
        self._has_waited: Rule | None = None
        self.expect_jumps = inner.expect_jumps
        self.write_out = inner.write_out
        self.drop_before = inner.drop_before
        self.drop_cached = inner.drop_cached
        self.close = inner.close
        self._restore()

    def _restore(self) -> None:
        inner = self._inner
        self.append = inner.append
        self.truncate = inner.truncate
        self.read_resident = inner.read_resident
        self.hot_range = inner.hot_range
        self.read = inner.read
        self.read_later = inner.read_later
        self.sync = inner.sync
        self.sync_later = inner.sync_later

    def set_rules(self, rules: "Sequence[Rule]") -> None:
        """Apply those of these rules that select this file."""
        self._restore()
        self._rules = tuple(rules)
        if self._is_selected(WRITE):
            self.append = self._append
            self.truncate = self._truncate
        if self._is_selected(READ):
            self.read_resident = _nothing_resident
            self.hot_range = _nothing_hot
            self.read = self._read
            self.read_later = self._read_later
        elif self._is_selected(MISS):
            self.read = self._read_cold
            self.read_later = self._read_cold_later
        if self._is_selected(SYNC):
            self.sync = self._sync
            self.sync_later = self._sync_later

    def _is_selected(self, direction: str) -> bool:
        return any(rule.selects_file(self._partition, direction) for rule in self._rules)

    @property
    def path(self) -> str:
        """Where the file is."""
        return self._inner.path

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._inner.size_bytes

    def _wait(self, direction: str) -> None:
        rule = self._disk.strike(self._rules, self._partition, direction)
        if rule is not None:
            self._disk.wait(rule, self.path)

    def _append(self, parts: Sequence[Buffer]) -> None:
        self._wait(WRITE)
        self._inner.append(parts)

    def _truncate(self, size: int) -> None:
        self._wait(WRITE)
        self._inner.truncate(size)

    def _read(self, position: int, size: int, residency: Residency | None = None) -> Buffer:
        if self._has_waited is None or not self._has_waited.is_active:
            rule = self._disk.strike(self._rules, self._partition, READ)
            if rule is not None:
                self._disk.wait(rule, self.path)
            # Not reached when the read fails, so that the next read may fail, too.
            self._has_waited = rule
        if residency is not None and residency.resident_bytes == UNMEASURED:
            # As for `read_resident`.
            residency.resident_bytes = 0
        return self._inner.read(position, size, residency)

    def _read_later(
        self,
        position: int,
        size: int,
        done: Callable[[Buffer | OSError], None],
        residency: Residency | None = None,
    ) -> None:
        rule = self._disk.strike(self._rules, self._partition, READ)
        if residency is not None:
            residency.resident_bytes = 0
        go_on = partial(self._inner.read_later, position, size, done, residency)
        if rule is None:
            go_on()
        else:
            self._disk.postpone(rule, go_on, done, self.path)

    def _read_cold(self, position: int, size: int, residency: Residency | None = None) -> Buffer:
        has_waited = self._has_waited is not None and self._has_waited.is_active
        data, rule = self._read_late(position, size, residency, may_wait=not has_waited)
        if rule is not None:
            self._has_waited = rule
        return data

    def _read_cold_later(
        self,
        position: int,
        size: int,
        done: Callable[[Buffer | OSError], None],
        residency: Residency | None = None,
    ) -> None:
        def answer(result: "tuple[Buffer, Rule | None] | Exception") -> None:
            assert not isinstance(result, Exception) or isinstance(result, OSError), f"a read ended with {result!r}"
            done(result if isinstance(result, OSError) else result[0])

        self._disk.run_later(partial(self._read_late, position, size, residency, may_wait=True), answer)

    def _read_late(
        self, position: int, size: int, residency: Residency | None, *, may_wait: bool
    ) -> "tuple[Buffer, Rule | None]":
        """Read, in a worker; if not all of it was in memory, wait there. Return the rule that made it wait, too."""
        found = Residency() if residency is None else residency
        data = self._inner.read(position, size, found)
        rule = None
        # Where the system cannot tell what is in memory, every read by a worker counts as missed.
        if may_wait and found.resident_bytes < len(data) > 0:
            rule = self._disk.strike(self._rules, self._partition, MISS)
            if rule is not None:
                self._disk.wait(rule, self.path)
        return data, rule

    def _sync(self) -> None:
        self._wait(SYNC)
        self._inner.sync()

    def _sync_later(self, done: Callable[[OSError | None], None]) -> None:
        rule = self._disk.strike(self._rules, self._partition, SYNC)
        go_on = partial(self._inner.sync_later, done)
        if rule is None:
            go_on()
        else:
            self._disk.postpone(rule, go_on, done, self.path)


def _nothing_resident(position: int, size: int) -> Buffer | None:  # noqa: ARG001 - the port's names
    return None


def _nothing_hot(position: int, size: int) -> FileRange | None:  # noqa: ARG001 - the port's names
    return None


def _ignore(_rule: "Rule") -> None:
    """Count nothing: no registry is attached."""
