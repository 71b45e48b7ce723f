"""The simulated disk: what a kill keeps and what a power cut may take."""

import errno
import random

import pytest

from syncline.storage.disk import Residency
from syncline.virtual.determinism.trace import Trace
from syncline.virtual.disk.disk import DiskSettings, SimDisk
from syncline.virtual.disk.medium import Medium
from syncline.virtual.disk.pages import SimPages
from syncline.virtual.time.durations import MS
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import Process, ProcessIsDeadError


class Machine:
    """A host with a disk."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualLoop()
        self.medium = Medium("b1", random.Random(seed))
        self.process = Process("b1")
        self.disk = self.opened()

    def opened(self) -> SimDisk:
        """Return the disk as a process of this host sees it."""
        settings = DiskSettings(miss_probability=0)
        return self.process.context.run(SimDisk, self.loop, self.medium, random.Random(2), Trace(), settings)


@pytest.fixture
def machine():
    """Return a machine with a directory."""
    it = Machine()
    it.disk.make_directory("/data/t-0")
    yield it
    it.loop.close()


def settle(machine: Machine) -> None:
    """Make all names safe."""
    for path in ("/", "/data", "/data/t-0"):
        machine.disk.sync_directory(path)


def test_kill_keeps_everything_that_was_written(machine) -> None:
    """The page cache belongs to the machine, not to the process."""
    machine.disk.open("/data/t-0/log", create=True).append([b"abc", b"def"])
    machine.process.die()
    machine.process = Process("b1", 1)

    assert machine.opened().read_file("/data/t-0/log") == b"abcdef"


def test_dead_process_can_do_nothing(machine) -> None:
    """Code that runs on while a run is taken apart reaches no disk."""
    file = machine.disk.open("/data/t-0/log", create=True)
    machine.process.die()

    with pytest.raises(ProcessIsDeadError):
        file.append([b"late"])


def test_power_cut_keeps_what_was_synced_and_a_part_of_the_rest() -> None:
    """Every outcome holds the synced bytes; over many seeds all, none and torn writes are seen."""
    seen = set()
    for seed in range(60):
        machine = Machine(seed)
        machine.disk.make_directory("/data/t-0")
        file = machine.disk.open("/data/t-0/log", create=True)
        file.append([b"safe"])
        file.sync()
        settle(machine)
        file.append([b"0123456789"])
        file.append([b"abcdef"])
        machine.medium.lose_power()
        left = machine.disk.read_file("/data/t-0/log")
        machine.loop.close()
        assert left[:4] == b"safe"
        seen.add(left)

    assert b"safe" in seen
    assert b"safe0123456789abcdef" in seen
    assert any(len(left) not in (4, 14, 20) for left in seen)


def test_power_cut_may_lose_a_file_whose_name_was_not_synced() -> None:
    """Syncing a file does not make its name safe."""
    kept = 0
    for seed in range(40):
        machine = Machine(seed)
        machine.disk.make_directory("/data/t-0")
        settle(machine)
        file = machine.disk.open("/data/t-0/log", create=True)
        file.append([b"x"])
        file.sync()
        machine.medium.lose_power()
        kept += machine.disk.exists("/data/t-0/log")
        machine.loop.close()

    assert 0 < kept < 40


@pytest.mark.parametrize("seed", range(20))
def test_replaced_file_holds_the_new_contents_after_a_power_cut(seed) -> None:
    """A synced replacement is safe once the call has returned."""
    machine = Machine(seed)
    machine.disk.make_directory("/data/t-0")
    settle(machine)
    machine.disk.replace_file("/data/t-0/point", b"old")
    machine.disk.replace_file("/data/t-0/point", b"new")
    machine.medium.lose_power()
    left = machine.disk.read_file("/data/t-0/point")
    machine.loop.close()

    assert left == b"new"


def test_boot_id_changes_with_a_power_cut_only(machine) -> None:
    """A new process on the same boot may trust the page cache."""
    before = machine.disk.boot_id()
    machine.process = Process("b1", 1)
    same = machine.opened().boot_id()
    machine.medium.lose_power()

    assert same == before
    assert machine.opened().boot_id() != before


def test_slow_disk_misses_and_reads_later(machine) -> None:
    """While the disk is slow nothing is in memory, and a read takes its time."""
    file = machine.disk.open("/data/t-0/log", create=True)
    file.append([b"abcdef"])
    results = []
    machine.disk.slow_ns_max = 500 * MS
    resident = file.read_resident(0, 6)
    residency = Residency()
    machine.process.context.run(file.read_later, 0, 6, results.append, residency)
    began_ns = machine.loop.now_ns
    while not results:
        machine.loop.turn()

    assert resident is None
    assert results == [b"abcdef"]
    assert machine.loop.now_ns > began_ns + MS
    assert residency.resident_bytes == 0


def test_with_pages_what_is_in_memory_is_exact(machine) -> None:
    """Three pages: the one used longest ago goes; a dropped one goes at once."""
    machine.disk.pages = SimPages(3 * 4_096)
    file = machine.disk.open("/data/t-0/log", create=True)
    for number in range(4):
        file.append([bytes([number]) * 4_096])
    assert file.read_resident(0, 1) is None
    assert file.read_resident(4_096, 8_192) is not None
    residency = Residency()
    file.read(0, 8_192, residency)
    assert residency.resident_bytes == 4_096

    known = Residency()
    file.drop_cached(4_000, 4_200)
    file.read(100, 8_000, known)
    assert known.resident_bytes == 3_996


def test_full_disk_refuses_and_changes_nothing(machine) -> None:
    """ENOSPC leaves the file as it was."""
    file = machine.disk.open("/data/t-0/log", create=True)
    file.append([b"abc"])
    machine.medium.room_bytes = 5

    with pytest.raises(OSError, match="No space") as error:
        file.append([b"def"])

    assert error.value.errno == errno.ENOSPC
    assert file.size_bytes == 3
    assert machine.disk.free_bytes("/data") == 2


def test_failure_strikes_once(machine) -> None:
    """An injected error is raised by the next operation of its kind."""
    file = machine.disk.open("/data/t-0/log", create=True)
    machine.disk.fail_next("append", errno.EIO)

    with pytest.raises(OSError, match="simulated"):
        file.append([b"x"])
    file.append([b"y"])

    assert file.read(0, 10) == b"y"


def test_lock_dies_with_its_process(machine) -> None:
    """A second process gets it only after the first is gone."""
    machine.disk.lock("/data/.lock")
    first = machine.process
    machine.process = Process("b1", 1)
    second = machine.opened()
    with pytest.raises(BlockingIOError):
        second.lock("/data/.lock")
    first.die()

    second.lock("/data/.lock").release()
