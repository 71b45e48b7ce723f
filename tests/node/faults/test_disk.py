"""A faulty disk: without a rule it works like a real one; a rule affects exactly the operations that it selects."""

import asyncio
import errno
import mmap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from syncline.node.clock import SystemClock
from syncline.node.faults.disk import FaultyDisk, FaultyFile
from syncline.node.faults.rules import CLEARED, Rule
from syncline.storage.disk import Disk, Residency
from syncline.storage.machine.real_disk import RealDisk
from tests.storage.disk_conformance import DiskConformance, Settle
from tests.storage.loop_of_one import LoopOfOne

PAGE = mmap.PAGESIZE


class ManualClock(SystemClock):
    """A clock that advances only when a thread waits."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.waits: list[float] = []
        self.on_wait: Callable[[], object] = int

    def mono_ms(self) -> int:
        """Return the time."""
        return int(self.now_ms)

    def block(self, seconds: float) -> None:
        """Let time pass instead of stopping a thread."""
        self.waits.append(seconds)
        self.now_ms += seconds * 1_000
        self.on_wait()


class Scene:
    """A faulty disk over real files, on a loop of its own."""

    def __init__(self, root: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.real = RealDisk(self.loop.call_soon_threadsafe, workers=1)
        self.root = str(root)
        self.disk = FaultyDisk(self.real, self.root, self.loop, self.clock, self.clock.block)
        self.struck: list[str] = []
        self.disk.on_struck = lambda rule: self.struck.append(rule.id)
        for directory in ("orders-3", "orders-4"):
            self.disk.make_directory(f"{self.root}/{directory}")

    def close(self) -> None:
        """End its threads."""
        self.disk.close()
        self.real.close()
        self.loop.close()

    def file(self, directory: str = "orders-3") -> Any:
        """Return an open file of eight bytes."""
        file = self.disk.open(f"{self.root}/{directory}/0.log", create=True)
        file.append([b"12345678"])
        return file

    def rule(self, kind: str, **fields: Any) -> Rule:
        """Put one rule into force."""
        rule = Rule({"id": "f1", "kind": kind, "topic": "orders", "partition": 3, **fields})
        if rule.duration_ms is not None:
            rule.until_ms = self.clock.mono_ms() + rule.duration_ms
        self.disk.set_rules([rule])
        return rule

    def result_of(self, begin: Callable[[Callable[[Any], None]], None], within_s: float = 5.0) -> Any:
        """Return the result of a call with a callback."""

        async def wait() -> Any:
            future: asyncio.Future[Any] = self.loop.create_future()
            begin(future.set_result)
            return await asyncio.wait_for(future, within_s)

        return self.loop.run_until_complete(wait())

    def nothing_of(self, begin: Callable[[Callable[[Any], None]], None]) -> list[Any]:
        """Begin a call and return the list that will hold its result; it is empty at first."""
        results: list[Any] = []

        async def wait() -> None:
            begin(results.append)
            await asyncio.sleep(0.03)

        self.loop.run_until_complete(wait())
        assert results == []
        return results

    def turn(self, seconds: float = 0.0) -> None:
        """Let the loop run."""
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Return a disk with two partitions."""
    scene = Scene(tmp_path)
    yield scene
    scene.close()


class TestFaultyDiskWithoutFaults(DiskConformance):
    """The disk keeps the contract of its port when no fault is active."""

    @pytest.fixture
    def queue(self) -> LoopOfOne:
        """Return the stand-in for the loop."""
        return LoopOfOne()

    @pytest.fixture
    def disk(self, queue: LoopOfOne, tmp_path: Path) -> Iterator[Disk]:
        """Return a faulty disk without faults over a real one."""
        real = RealDisk(queue.call_soon_threadsafe, workers=2)
        clock = ManualClock()
        yield FaultyDisk(real, str(tmp_path), queue, clock, clock.block)  # type: ignore[arg-type]
        real.close()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        """Return a place in the test's directory."""
        return str(tmp_path / "root")

    @pytest.fixture
    def settle(self, queue: LoopOfOne) -> Settle:
        """Return what waits for results of threads."""
        return queue.run_until


def test_disk_without_a_rule_is_the_real_one_itself(scene: Scene) -> None:
    """The methods of the hot path are the real file's own, before a rule, beside one, and after it."""
    file, other = scene.file(), scene.file("orders-4")
    names = ("append", "read_resident", "hot_range", "read", "read_later", "sync", "sync_later", "truncate")
    plain = {name: getattr(file, name) for name in names}
    assert not any(isinstance(method.__self__, FaultyFile) for method in plain.values())
    assert len({id(method.__self__) for method in plain.values()}) == 1

    scene.rule("disk-slow", delay_ms=10)
    assert all(getattr(file, name) != plain[name] for name in names)
    assert not any(isinstance(getattr(other, name).__self__, FaultyFile) for name in names)
    scene.disk.set_rules([])
    assert {name: getattr(file, name) for name in names} == plain


def test_slow_read_is_not_in_memory_and_comes_late(scene: Scene) -> None:
    """The loop keeps running meanwhile; the bytes are correct; writes to the same file are not slow."""
    file = scene.file()
    assert len(file.hot_range(0, 8)) == 8
    scene.rule("disk-slow", delay_ms=60, directions=["read"])

    assert file.read_resident(0, 8) is None
    assert file.hot_range(0, 8) is None
    residency = Residency()
    results = scene.nothing_of(lambda done: file.read_later(0, 8, done, residency))
    file.append([b"9"])
    scene.turn(0.1)

    assert [bytes(data) for data in results] == [b"12345678"]
    assert residency.resident_bytes == 0
    assert scene.clock.waits == []
    assert scene.struck == ["f1"]


def test_slow_write_stops_the_thread_that_writes(scene: Scene) -> None:
    """An append is delayed, and then succeeds."""
    file = scene.file()
    scene.rule("disk-slow", delay_ms=60, directions=["write"])

    file.append([b"9"])

    assert sum(scene.clock.waits) == pytest.approx(0.06)
    assert file.size_bytes == 9
    assert bytes(file.read_resident(0, 9)) == b"123456789"


def test_slow_read_in_a_worker_waits_once_for_many_stretches(scene: Scene) -> None:
    """A search for a batch takes several reads through one handle; the disk is slow once."""
    scene.file()
    slow = scene.rule("disk-slow", delay_ms=60, directions=["read"])
    handle = scene.disk.open(f"{scene.root}/orders-3/0.log")

    assert [bytes(handle.read(at, 2)) for at in (0, 2, 4)] == [b"12", b"34", b"56"]

    assert sum(scene.clock.waits) == pytest.approx(0.06)
    assert slow.trigger.hits == 1


def test_stuck_read_comes_when_the_fault_is_cleared(scene: Scene) -> None:
    """Nothing comes before, however long it takes; also when the trigger is spent."""
    file = scene.file()
    stuck = scene.rule("disk-stuck", directions=["read"], trigger="once")
    results = scene.nothing_of(lambda done: file.read_later(0, 4, done))

    assert bytes(scene.result_of(lambda done: file.read_later(4, 4, done))) == b"5678", "the trigger is spent"
    assert results == []
    stuck.over = CLEARED
    scene.disk.set_rules([])
    scene.disk.lift(stuck)
    scene.turn(0.05)
    assert [bytes(data) for data in results] == [b"1234"]


def test_stuck_write_stands_until_the_time_is_over(scene: Scene) -> None:
    """The fault blocks the writing thread for its time and no longer; then the write is done."""
    file = scene.file()
    scene.rule("disk-stuck", directions=["write"], duration_ms=500)

    file.append([b"9"])

    assert sum(scene.clock.waits) == pytest.approx(0.5, abs=0.03)
    assert file.size_bytes == 9


def test_stuck_read_never_stops_the_loop_for_ever(scene: Scene) -> None:
    """A fault without an end lets a read on the loop's own thread through: no request could clear it."""
    file = scene.file()
    scene.rule("disk-stuck", directions=["read"])

    assert bytes(file.read(0, 4)) == b"1234"
    assert scene.clock.waits == []


def test_stuck_read_in_a_worker_ends_when_the_fault_is_cleared(scene: Scene) -> None:
    """A waiting worker checks repeatedly whether it may continue."""
    file = scene.file()
    stuck = scene.rule("disk-stuck", directions=["read"])

    def clear() -> None:
        if len(scene.clock.waits) == 5:
            stuck.over = CLEARED

    scene.clock.on_wait = clear
    read: list[bytes] = []
    worker = threading.Thread(target=lambda: read.append(bytes(file.read(0, 4))))
    worker.start()
    worker.join(5)

    assert read == [b"1234"]
    assert len(scene.clock.waits) == 5


def test_stuck_read_in_a_worker_ends_when_the_broker_stops(scene: Scene) -> None:
    """A stop waits for its threads; no caller needs what they read then."""
    file = scene.file()
    scene.rule("disk-stuck", directions=["read"])
    scene.clock.on_wait = scene.disk.close
    read: list[bytes] = []
    worker = threading.Thread(target=lambda: read.append(bytes(file.read(0, 4))))
    worker.start()
    worker.join(5)

    assert read == [b"1234"]
    assert len(scene.clock.waits) == 1


def cold_file(scene: Scene) -> Any:
    """Return an open file of 16 pages of which the last eight are not in memory; skips where all files are."""
    file = scene.disk.open(f"{scene.root}/orders-3/1.log", create=True)
    file.append([b"x" * 16 * PAGE])
    file.sync()
    # As after a restart: what a process has just written itself, it takes from memory without asking.
    file.close()
    file = scene.disk.open(f"{scene.root}/orders-3/1.log")
    # The system takes whole pages; the first eight are read again.
    file.drop_cached(0, 16 * PAGE)
    file.expect_jumps()
    file.read(0, 8 * PAGE)
    residency = Residency()
    scene.result_of(lambda done: file.read_later(15 * PAGE, PAGE, done, residency))
    if residency.resident_bytes:
        pytest.skip("this file system keeps its files in memory, or nobody can tell what is")
    return file


def test_slow_misses_leave_reads_from_memory_alone(scene: Scene) -> None:
    """What is in memory comes at once, also from a worker; the rest is late, and its worker waits as for a disk."""
    file = cold_file(scene)
    slow = scene.rule("disk-slow", delay_ms=60, directions=["miss"])

    assert file.read_resident(0, 8 * PAGE) is not None
    assert len(scene.result_of(lambda done: file.read_later(0, 8 * PAGE, done))) == 8 * PAGE
    assert len(file.read(0, 8 * PAGE)) == 8 * PAGE
    assert (slow.trigger.seen, scene.clock.waits) == (0, [])

    assert file.read_resident(8 * PAGE, PAGE) is None
    residency = Residency()
    assert scene.result_of(lambda done: file.read_later(8 * PAGE, PAGE, done, residency)) == b"x" * PAGE
    assert residency.resident_bytes == 0
    assert sum(scene.clock.waits) == pytest.approx(0.06)
    assert (slow.trigger.seen, slow.trigger.hits) == (1, 1)
    assert file.read_resident(8 * PAGE, PAGE) is not None, "it is in memory now"


def test_slow_miss_in_a_worker_waits_once_for_many_stretches(scene: Scene) -> None:
    """A search looks at several places through one handle; only if one is not in memory, the disk is slow, and once."""
    cold_file(scene)
    slow = scene.rule("disk-slow", delay_ms=60, directions=["miss"])
    handle = scene.disk.open(f"{scene.root}/orders-3/1.log")
    handle.expect_jumps()

    assert [len(handle.read(at * PAGE, PAGE)) for at in (0, 1)] == [PAGE, PAGE]
    assert slow.trigger.seen == 0
    assert [len(handle.read(at * PAGE, PAGE)) for at in (8, 10, 2)] == [PAGE, PAGE, PAGE]

    assert sum(scene.clock.waits) == pytest.approx(0.06)
    assert slow.trigger.hits == 1


def test_failing_misses_fail_only_what_comes_from_the_disk(scene: Scene) -> None:
    """A broken disk still gives what memory has."""
    file = cold_file(scene)
    scene.rule("disk-fail", directions=["miss"])

    assert len(scene.result_of(lambda done: file.read_later(0, PAGE, done))) == PAGE
    file.append([b"9"])
    assert scene.result_of(lambda done: file.read_later(8 * PAGE, PAGE, done)).errno == errno.EIO
    with pytest.raises(OSError, match="injected fault f1"):
        file.read(10 * PAGE, PAGE)


@pytest.mark.parametrize("name", ["EIO", "ENOSPC"])
def test_failing_disk_raises_os_errors_of_the_kind_asked_for(scene: Scene, name: str) -> None:
    """Reads, writes and syncs fail, whether they are waited for or called back; nothing is written."""
    file = scene.file()
    scene.rule("disk-fail", errno=name)
    number = getattr(errno, name)

    assert file.read_resident(0, 4) is None, "what the disk refuses is for `read_later` to report"
    for fails in (lambda: file.append([b"9"]), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError, match="injected fault f1") as caught:
            fails()
        assert caught.value.errno == number
    assert scene.result_of(lambda done: file.read_later(0, 4, done)).errno == number
    assert scene.result_of(file.sync_later).errno == number
    path = f"{scene.root}/orders-3/checkpoint"
    with pytest.raises(OSError, match="injected fault"):
        scene.disk.replace_file(path, b"x")
    scene.disk.set_rules([])
    assert not scene.disk.exists(path)
    assert file.size_bytes == 8
    assert bytes(file.read(0, 8)) == b"12345678"


def test_failing_disk_fails_each_read_through_one_handle(scene: Scene) -> None:
    """Each retry fails again."""
    file = scene.file()
    rule = scene.rule("disk-fail", directions=["read"])

    for _ in range(3):
        with pytest.raises(OSError, match="injected fault f1"):
            file.read(0, 4)

    assert rule.trigger.hits == 3


def test_failing_disk_fails_only_what_is_selected(scene: Scene) -> None:
    """Another partition, another direction and the broker's own files are not affected."""
    file, other = scene.file(), scene.file("orders-4")
    scene.rule("disk-fail", directions=["write"])

    other.append([b"9"])
    scene.disk.replace_file(f"{scene.root}/recovery-point-offset-checkpoint", b"0")
    assert bytes(file.read_resident(0, 8)) == b"12345678"
    file.sync()
    with pytest.raises(OSError, match="injected"):
        file.append([b"9"])


def test_failing_disk_strikes_the_brokers_own_files_when_no_topic_is_named(scene: Scene) -> None:
    """A whole disk fails; a data directory called like a partition is not mistaken for one."""
    rule = Rule({"id": "f2", "kind": "disk-fail", "directions": ["write"]})
    scene.disk.set_rules([rule])
    with pytest.raises(OSError, match="injected"):
        scene.disk.replace_file(f"{scene.root}/meta.properties", b"0")

    assert scene.disk.partition_of("/data/broker-1/meta.properties") is None
    assert scene.disk.partition_of(f"{scene.root}/orders-3/0.log") == ("orders", 3)
    assert scene.disk.partition_of(f"{scene.root}/a-b-12/0.log") == ("a-b", 12)
    assert scene.disk.partition_of(f"{scene.root}/orders-3.1-delete/0.log") is None


def test_trigger_picks_the_writes_that_fail(scene: Scene) -> None:
    """The third write fails, others do not; the counters say so."""
    file = scene.file()
    third = scene.rule("disk-fail", directions=["write"], trigger="nth=3")

    outcomes = []
    for _ in range(5):
        try:
            file.append([b"9"])
            outcomes.append("done")
        except OSError:
            outcomes.append("failed")

    assert outcomes == ["done", "done", "failed", "done", "done"]
    assert (third.trigger.seen, third.trigger.hits) == (3, 1)


def test_closing_drops_what_is_held(scene: Scene) -> None:
    """A broker that stops does not wait for its slow disk, and nothing is read after its end."""
    file = scene.file()
    scene.rule("disk-slow", delay_ms=250, directions=["read"])
    results = scene.nothing_of(lambda done: file.read_later(0, 4, done))

    scene.disk.close()
    scene.turn(0.3)

    assert results == []
