"""Blocks that are reserved ahead of a growing file, on a real file system."""

import ctypes
import errno
import threading
from pathlib import Path

import pytest

from syncline.storage.machine.real_disk import RealDisk, RealFile
from syncline.storage.machine.reserved_blocks import AHEAD_BYTES
from tests.patience import until


def _blocks_bytes(file: RealFile) -> int:
    return Path(file.path).stat().st_blocks * 512


def _grown(disk: RealDisk, path: Path, size_mb: int) -> RealFile:
    """Return a file that grew to this size, written out as logs are."""
    file = disk.open(str(path), create=True)
    while file.size_bytes < size_mb << 20:
        file.append([bytes(8 << 20)])
        file.write_out()
    return file


@pytest.fixture
def reserving_disk(real_disk: RealDisk, tmp_path: Path) -> RealDisk:
    """A disk whose file system takes reservations."""
    blocks = real_disk._recycler.blocks
    if not real_disk._recycler.is_available or blocks._fallocate is None:
        pytest.skip("sync_file_range or fallocate is missing here")
    with (tmp_path / "probe").open("wb") as probe:
        if blocks._fallocate(probe.fileno(), 1, 0, 4096):
            pytest.skip("the file system has no reservations")
    return real_disk


def test_large_file_has_blocks_ahead_until_it_is_complete(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """Its size stays; a small one has none, since thousands of logs would fill the disk."""
    small = _grown(reserving_disk, tmp_path / "small", 32)
    large = _grown(reserving_disk, tmp_path / "large", 80)
    until(lambda: _blocks_bytes(large) >= large.size_bytes + AHEAD_BYTES // 2)
    assert Path(large.path).stat().st_size == large.size_bytes == 80 << 20
    large.append([b"more"])
    assert bytes(large.read((80 << 20) - 2, 10)) == b"\x00\x00more"

    for file in (small, large):
        file.write_out(is_last=True)
    reserving_disk.close()

    for file in (small, large):
        assert Path(file.path).stat().st_size == file.size_bytes
        assert _blocks_bytes(file) < file.size_bytes + (1 << 20)


def test_closed_file_keeps_no_blocks_ahead(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """A broker that is stopped leaves none behind."""
    file = _grown(reserving_disk, tmp_path / "log", 80)
    until(lambda: _blocks_bytes(file) > file.size_bytes + (1 << 20))
    file.close()
    reserving_disk.close()

    assert Path(file.path).stat().st_size == 80 << 20
    assert _blocks_bytes(file) < file.size_bytes + (1 << 20)


def test_blocks_that_a_dead_process_has_left_over_go_with_the_complete_file(
    reserving_disk: RealDisk, tmp_path: Path
) -> None:
    """The next one does not know of them."""
    path = tmp_path / "log"
    path.write_bytes(bytes(64 << 20))
    with path.open("rb+") as dead:
        assert reserving_disk._recycler.blocks.reserve(dead.fileno(), 64 << 20) == (64 << 20) + AHEAD_BYTES
    file = reserving_disk.open(str(path))
    assert _blocks_bytes(file) >= file.size_bytes + AHEAD_BYTES
    file.write_out(is_last=True)

    until(lambda: _blocks_bytes(file) < file.size_bytes + (1 << 20))
    assert path.stat().st_size == file.size_bytes == 64 << 20


def test_cut_file_is_given_blocks_behind_its_new_end(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """The cut took away those that it had."""
    file = _grown(reserving_disk, tmp_path / "log", 96)
    until(lambda: _blocks_bytes(file) > file.size_bytes + (1 << 20))
    file.truncate(70 << 20)
    assert _blocks_bytes(file) < file.size_bytes + (1 << 20)
    file.append([bytes(8 << 20)])
    file.write_out()

    until(lambda: _blocks_bytes(file) >= file.size_bytes + AHEAD_BYTES // 2)
    assert Path(file.path).stat().st_size == file.size_bytes == 78 << 20


def test_close_cuts_off_nothing_that_was_written_by_others(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """To give blocks back sets the size: of a file that has grown meanwhile, that would take records away."""
    file = _grown(reserving_disk, tmp_path / "log", 80)
    until(lambda: _blocks_bytes(file) > file.size_bytes + (1 << 20))
    again = reserving_disk.open(file.path)
    again.append([b"more"])
    file.close()

    assert Path(file.path).stat().st_size == (80 << 20) + 4


class SlowBlocks:
    """A call that reserves when the test says so."""

    def __init__(self, disk: RealDisk, *, reserves_first: bool = False) -> None:
        self._call = disk._recycler.blocks._fallocate
        self._reserves_first = reserves_first
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        disk._recycler.blocks._fallocate = self.fallocate

    def fallocate(self, descriptor: int, mode: int, position: int, size: int) -> int:
        """Wait and reserve, or reserve and wait."""
        assert self._call is not None
        result = self._call(descriptor, mode, position, size) if self._reserves_first else None
        self.begun.set()
        assert self.may_go_on.wait(30)
        return self._call(descriptor, mode, position, size) if result is None else result


def test_loop_does_not_wait_while_blocks_are_reserved(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """Not for another file, and not for the same one: what the thread reserves meanwhile is given back after it."""
    slow = SlowBlocks(reserving_disk)
    other = _grown(reserving_disk, tmp_path / "other", 48)
    file = _grown(reserving_disk, tmp_path / "log", 64)
    assert slow.begun.wait(10)
    # Each of these would wait for good.
    for each in (other, file):
        each.write_out()
        each.write_out(is_last=True)
    slow.may_go_on.set()
    reserving_disk.close()

    assert Path(file.path).stat().st_size == file.size_bytes == 64 << 20
    assert _blocks_bytes(file) < file.size_bytes + (1 << 20)


def test_complete_file_that_grows_again_loses_nothing(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """A segment becomes the last one again when those behind it are cut off; the thread may still have to end it."""
    slow = SlowBlocks(reserving_disk)
    grown = _grown(reserving_disk, tmp_path / "grown", 64)
    assert slow.begun.wait(10)
    cut = _grown(reserving_disk, tmp_path / "cut", 80)
    for file in (grown, cut):
        file.write_out(is_last=True)
    cut.truncate(30 << 20)
    for file in (grown, cut):
        file.append([b"end"])
    slow.may_go_on.set()
    reserving_disk.close()

    for file, size_mb in ((grown, 64), (cut, 30)):
        assert Path(file.path).stat().st_size == file.size_bytes == (size_mb << 20) + 3
        assert bytes(file.read(size_mb << 20, 10)) == b"end"


def test_file_that_was_cut_while_blocks_are_due_is_given_none_behind_its_old_end(
    reserving_disk: RealDisk, tmp_path: Path
) -> None:
    """The thread comes to it with an end that is gone."""
    slow = SlowBlocks(reserving_disk)
    _grown(reserving_disk, tmp_path / "first", 64)
    assert slow.begun.wait(10)
    file = _grown(reserving_disk, tmp_path / "log", 96)
    file.truncate(20 << 20)
    slow.may_go_on.set()
    reserving_disk.close()

    assert _blocks_bytes(file) < (20 << 20) + (1 << 20)


def _grown_until_reserving(disk: RealDisk, slow: SlowBlocks, path: Path) -> RealFile:
    """Return a file of 96 MB for which the thread reserves blocks just now, for the first time."""
    file = _grown(disk, path, 56)
    file.append([bytes(40 << 20)])
    file.write_out()
    assert slow.begun.wait(10)
    return file


def test_blocks_that_a_cut_takes_while_they_are_reserved_do_not_count(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """Guards: the file got no others before it was as long again."""
    slow = SlowBlocks(reserving_disk, reserves_first=True)
    file = _grown_until_reserving(reserving_disk, slow, tmp_path / "log")
    file.truncate(70 << 20)
    slow.may_go_on.set()
    file.append([bytes(8 << 20)])
    file.write_out()

    until(lambda: _blocks_bytes(file) >= file.size_bytes + AHEAD_BYTES // 2)


@pytest.mark.parametrize("reserves_first", [True, False], ids=["before", "after"])
def test_blocks_reserved_while_the_file_is_closed_are_given_back(
    reserving_disk: RealDisk, tmp_path: Path, reserves_first: bool
) -> None:
    """Guards: the close did not know of them yet."""
    slow = SlowBlocks(reserving_disk, reserves_first=reserves_first)
    file = _grown_until_reserving(reserving_disk, slow, tmp_path / "log")
    file.close()
    slow.may_go_on.set()
    reserving_disk.close()

    assert Path(file.path).stat().st_size == 96 << 20
    assert _blocks_bytes(file) < file.size_bytes + (1 << 20)


def test_blocks_reserved_behind_a_cut_are_given_back_at_the_close(reserving_disk: RealDisk, tmp_path: Path) -> None:
    """They lie behind an end from which nothing counts."""
    slow = SlowBlocks(reserving_disk)
    file = _grown_until_reserving(reserving_disk, slow, tmp_path / "log")
    file.truncate(62 << 20)
    slow.may_go_on.set()
    reserving_disk.close()
    file.close()

    assert _blocks_bytes(file) < file.size_bytes + (1 << 20)


@pytest.mark.parametrize(("refusal", "count"), [(errno.EOPNOTSUPP, 1), (errno.ENOSPC, 5)])
def test_refused_reservation_lets_appends_go_on(
    real_disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int, count: int
) -> None:
    """A file system without reservations is asked once, one without room with each step: appends tell of that."""
    asked: list[tuple[int, int, int]] = []

    def refused(_descriptor: int, mode: int, position: int, size: int) -> int:
        asked.append((mode, position, size))
        ctypes.set_errno(refusal)
        return -1

    if not real_disk._recycler.is_available:
        pytest.skip("sync_file_range is missing here")
    monkeypatch.setattr(real_disk._recycler.blocks, "_fallocate", refused)
    file = _grown(real_disk, tmp_path / "log", 64)
    for step in range(1, 5):
        until(lambda step=step: len(asked) == min(step, count))  # type: ignore[misc]
        file.append([bytes(8 << 20)])
        file.write_out()
    real_disk.close()

    assert asked == [(1, (64 + 8 * step) << 20, AHEAD_BYTES) for step in range(count)]
    assert file.size_bytes == 96 << 20
