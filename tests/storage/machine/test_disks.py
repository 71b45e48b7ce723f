"""The disks that storage's own tests use, against the port's conformance suite; and what only real files do."""

import ctypes
import errno
import gc
import os
import resource
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncline.storage.disk import BrokenFileError, Disk, Residency
from syncline.storage.machine.real_disk import HOT_TAIL_BYTES, RealDisk, RealFile
from syncline.storage.machine.resident_pages import UNKNOWN, ResidentPages
from syncline.storage.machine.uncleared import uncleared
from tests.patience import until
from tests.storage.disk_conformance import DiskConformance, Settle
from tests.storage.loop_of_one import LoopOfOne
from tests.storage.recording_disk import RecordingDisk


def _resident(file: RealFile, position: int, size: int) -> int:
    """Return how many bytes of a range are in memory."""
    descriptor = file.hold()
    try:
        return ResidentPages().bytes_in_memory(descriptor, position, size)
    finally:
        file.let_go()


def _cachestat_is_missing() -> bool:
    with Path(__file__).open("rb") as file:
        return ResidentPages().bytes_in_memory(file.fileno(), 0, 1) == UNKNOWN


class TestRealDisk(DiskConformance):
    """Files of this machine."""

    @pytest.fixture
    def disk(self, real_disk: RealDisk) -> Disk:
        """Return the real one."""
        return real_disk

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        """Return a place in the test's directory."""
        return str(tmp_path / "root")

    @pytest.fixture
    def settle(self, loop: LoopOfOne) -> Settle:
        """Return what waits for results of threads."""
        return loop.run_until


class TestRecordingDisk(DiskConformance):
    """The disk of the crash tests."""

    @pytest.fixture
    def disk(self) -> Disk:
        """Return an empty one."""
        return RecordingDisk()

    @pytest.fixture
    def root(self) -> str:
        """Return any path."""
        return "/root"

    @pytest.fixture
    def settle(self, disk: Disk) -> Settle:
        """Return its pump, which does all that there is."""
        assert isinstance(disk, RecordingDisk)
        pump = disk.pump

        def settle(condition: Callable[[], object]) -> None:
            pump()
            assert condition()

        return settle


def test_short_write_is_cut_off_and_raises_why(real_disk: RealDisk, tmp_path: Path) -> None:
    """At the process's file size limit a write comes back short: nothing of it stays."""
    file = real_disk.open(str(tmp_path / "x"), create=True)
    file.append([bytes(1000)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            file.append([b"a" * 400, b"b" * 400])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert raised.value.errno == errno.EFBIG
    assert file.size_bytes == 1000 == (tmp_path / "x").stat().st_size
    file.append([b"later"])
    assert file.read(1000, 5) == b"later"


def test_append_is_refused_for_good_when_a_failed_one_cannot_be_cut_off(
    real_disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contents of the file are then unknown."""
    file = real_disk.open(str(tmp_path / "x"), create=True)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "gone")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(BrokenFileError):
            file.append([b"x"])

    with pytest.raises(BrokenFileError):
        file.append([b"y"])


def test_old_bytes_are_read_without_waiting_when_they_are_cached(real_disk: RealDisk, tmp_path: Path) -> None:
    """Reopened, nothing is known to be hot; the kernel still has it."""
    path = str(tmp_path / "x")
    real_disk.replace_file(path, os.urandom(100_000))
    file = real_disk.open(path)

    found = file.read_resident(5, 50_000)

    if found is not None:
        assert bytes(found) == real_disk.read_file(path)[5:50_005]


def test_what_lies_before_the_hot_tail_is_read_with_the_flag(
    real_disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is being brought in counts as in memory, and a read without the flag would wait for it.

    Not even what this process has written is sure to be in memory still: the kernel may have taken it back.
    """
    contents = os.urandom(HOT_TAIL_BYTES + 50_000)
    file = real_disk.open(str(tmp_path / "x"), create=True)
    file.append([contents])
    with_flag: list[int] = []
    preadv = os.preadv

    def noted(descriptor: int, buffers: Any, position: int, flags: int = 0) -> int:
        with_flag.append(flags)
        return preadv(descriptor, buffers, position, flags)

    monkeypatch.setattr(os, "preadv", noted)
    assert file.read_resident(HOT_TAIL_BYTES, 20_000) == contents[HOT_TAIL_BYTES : HOT_TAIL_BYTES + 20_000]
    assert not with_flag
    found = file.read_resident(5, 20_000)

    assert found in (contents[5:20_005], None)
    assert with_flag == [os.RWF_NOWAIT]


def test_room_that_was_not_cleared_has_its_size() -> None:
    """It is an ordinary bytearray, for any size."""
    for size in (0, 1, 100, 1 << 20):
        room = uncleared(size)
        room[:] = bytes(size)
        assert room == bytes(size)
        assert type(room) is bytearray


@pytest.mark.skipif(_cachestat_is_missing(), reason="the kernel does not say what is in memory")
def test_threads_that_ask_at_once_get_their_own_answers(tmp_path: Path) -> None:
    """The room for an answer is used again, by one thread at a time."""
    paths = [tmp_path / str(number) for number in range(4)]
    pages, wrong = ResidentPages(), []
    for number, path in enumerate(paths):
        path.write_bytes(bytes(4_096 * (1 + number)))

    def ask(number: int) -> None:
        with paths[number].open("rb") as file:
            size = 4_096 * (1 + number)
            wrong.extend(
                found for _ in range(3_000) if (found := pages.bytes_in_memory(file.fileno(), 0, size + 4_096)) != size
            )

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)

    assert not wrong
    assert len(pages._questions) <= 4


def test_read_says_what_was_in_memory_before_it_and_brings_in_the_next(
    real_disk: RealDisk, loop: LoopOfOne, tmp_path: Path
) -> None:
    """The first look decides: it makes the kernel fetch what is missing. Neither reads further ahead."""
    mib = 1 << 20
    path = str(tmp_path / "x")
    contents = os.urandom(10 * mib)
    real_disk.replace_file(path, contents)
    file = real_disk.open(path)
    # Pages come and go in folios of up to 2 MiB.
    file.drop_cached(4 * mib, 6 * mib)
    gone = Residency()
    file.read(9 * mib, 4_096, gone)
    if gone.resident_bytes:
        pytest.skip("this file system keeps its files in memory")
    later = Residency(reads_ahead=True)
    results: list[Any] = []
    assert file.read_resident(3 * mib, 2 * mib) is None
    file.read_later(3 * mib, 2 * mib, results.append, later)
    loop.run_one()

    assert bytes(results[0]) == contents[3 * mib : 5 * mib]
    assert (later.resident_bytes, later.ahead_bytes) == (mib, 2 * mib)
    # Nobody has brought in what lies behind that.
    beyond = Residency()
    assert bytes(file.read(7 * mib, mib, beyond)) == contents[7 * mib : 8 * mib]
    assert beyond.resident_bytes == 0


def test_close_waits_for_the_worker_that_reads(real_disk: RealDisk, loop: LoopOfOne, tmp_path: Path) -> None:
    """The descriptor's number must not become another file's while a worker uses it."""
    file = real_disk.open(str(tmp_path / "x"), create=True)
    file.append([b"0123"])
    descriptor = file.hold()
    results: list[object] = []
    file.read_later(0, 4, results.append)
    file.close()
    assert os.fstat(descriptor).st_size == 4
    loop.run_one()
    assert results == [b"0123"]

    file.let_go()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    file.read_later(0, 4, results.append)
    loop.run_one()
    assert isinstance(results[1], OSError)


def test_what_the_disk_refuses_is_not_in_memory(
    real_disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An I/O error on the loop's try is left to the worker, which reports it to the reader."""
    file = real_disk.open(str(tmp_path / "x"), create=True)
    file.append([b"0123"])

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "gone")

    monkeypatch.setattr(os, "pread", fail)
    monkeypatch.setattr(os, "preadv", fail)

    assert file.read_resident(0, 4) is None


def test_real_disk_knows_its_boot(real_disk: RealDisk) -> None:
    """Linux says which boot this is; it looks like a UUID."""
    if Path("/proc/sys/kernel/random/boot_id").exists():
        assert len(real_disk.boot_id()) == 36


def test_pool_drops_results_when_the_loop_has_closed(tmp_path: Path) -> None:
    """No loop is left to take them; the threads end all the same."""

    def closed(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    disk = RealDisk(closed, workers=1)
    disk.run_later(lambda: 1, lambda _: None)
    disk.run_later(lambda: 2, lambda _: None)

    disk.close()


class Held:
    """What a job uses, and what an error keeps."""


@pytest.mark.parametrize("fails", [False, True])
def test_thread_keeps_nothing_of_its_last_job(real_disk: RealDisk, loop: LoopOfOne, *, fails: bool) -> None:
    """It may wait for the next one for hours; and no cycle of an error and its frames waits for the collector."""
    held = Held()
    uses = weakref.ref(held)

    def work(held: Held = held) -> Held:
        if fails:
            raise ValueError(str(held))
        return held

    results: list[str] = []
    gc.disable()
    try:
        real_disk.run_later(work, lambda result: results.append(type(result).__name__))
        loop.run_one()
        del work, held
        until(lambda: uses() is None, otherwise="the thread keeps what its job used")
    finally:
        gc.enable()

    assert results == ["ValueError" if fails else "Held"]


@pytest.mark.skipif(_cachestat_is_missing(), reason="the kernel does not tell what is in memory")
def test_pages_before_a_position_are_gone_and_the_rest_stays(real_disk: RealDisk, tmp_path: Path) -> None:
    """As the kernel counts them; it keeps single pages that it is busy with."""
    file = real_disk.open(str(tmp_path / "log"), create=True)
    file.append([bytes(8 << 20)])
    file.write_out()
    assert file.drop_before(6 << 20) == 6 << 20

    until(lambda: _resident(file, 0, 6 << 20) < 1 << 20)
    assert _resident(file, 6 << 20, 2 << 20) == 2 << 20


def test_sync_tells_what_write_out_has_failed_with(
    real_disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports it once, to write-out: a sync that then succeeds would vouch for bytes that are lost."""
    if not real_disk._recycler.is_available:
        pytest.skip("sync_file_range is missing here")
    tried = threading.Event()

    def refused(*_: int) -> int:
        ctypes.set_errno(errno.EIO)
        tried.set()
        return -1

    monkeypatch.setattr(real_disk._recycler, "_sync_file_range", refused)
    file = real_disk.open(str(tmp_path / "file"), create=True)
    file.append((bytes(10_000),))
    file.write_out()
    assert tried.wait(10)
    real_disk._recycler.close()

    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error") as refusal:
            file.sync()
        assert (refusal.value.errno, refusal.value.filename) == (errno.EIO, file.path)


def test_slow_write_out_holds_no_hint_up_and_gets_through_all_of_them(
    real_disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints come from the event loop. However many came meanwhile, what waits is one range per file."""
    begun, may_go_on = threading.Event(), threading.Event()
    calls: list[tuple[int, int, int]] = []

    def slow(_descriptor: int, position: int, size: int, flags: int) -> int:
        calls.append((position, size, flags))
        begun.set()
        assert may_go_on.wait(30)
        return 0

    monkeypatch.setattr(real_disk._recycler, "_sync_file_range", slow)
    file = real_disk.open(str(tmp_path / "log"), create=True)
    file.append([bytes(10_000)])
    file.write_out()
    assert begun.wait(10)
    for _ in range(1000):
        file.append([bytes(10_000)])
        file.write_out()
        file.drop_before(file.size_bytes - 5_000)
    waiting = real_disk._recycler._waiting.qsize()
    may_go_on.set()
    real_disk.close()

    assert waiting == 1
    assert calls == [(0, 10_000, 2), (10_000, 10_000_000, 2), (0, 10_005_000, 7)]
