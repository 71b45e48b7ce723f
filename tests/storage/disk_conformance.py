"""What every Disk must do: one suite for the real one, the recording one and the simulated one.

A test class inherits it and says how to make a disk (`disk`, `root`) and how to
let background work go on until something holds (`settle`). Durability is not tested
here: it shows only in power cuts.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from syncline.storage.disk import UNMEASURED, Disk, Residency

Settle: TypeAlias = Callable[[Callable[[], object]], None]


class DiskConformance:
    """The port's promises; inherit and give `disk` and `root`."""

    @pytest.fixture
    def disk(self) -> Disk:
        """Return the disk to test."""
        raise NotImplementedError

    @pytest.fixture
    def root(self) -> str:
        """Return a directory that may not exist yet."""
        raise NotImplementedError

    @pytest.fixture
    def settle(self) -> Settle:
        """Return what lets background work go on, and delivers its results, until what it is given holds."""
        raise NotImplementedError

    @pytest.fixture
    def home(self, disk: Disk, root: str) -> str:
        """Return an empty directory."""
        disk.make_directory(f"{root}/a/b")
        return f"{root}/a/b"

    def test_open_refuses_when_the_file_does_not_exist(self, disk: Disk, home: str) -> None:
        """Only `create` makes files."""
        with pytest.raises(FileNotFoundError):
            disk.open(f"{home}/x")
        assert not disk.exists(f"{home}/x")

    def test_append_adds_all_parts_at_the_end(self, disk: Disk, home: str) -> None:
        """Parts of any buffer type are joined; the size follows."""
        file = disk.open(f"{home}/x", create=True)
        assert file.size_bytes == 0

        file.append([b"one"])
        file.append([bytearray(b"two"), memoryview(b"-three-")[1:-1]])

        assert file.size_bytes == 11
        assert bytes(file.read(0, 11)) == b"onetwothree"
        assert disk.read_file(f"{home}/x") == b"onetwothree"

    def test_read_returns_less_only_at_the_end(self, disk: Disk, home: str) -> None:
        """A read that reaches over the end gets what is there."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123456789"])

        assert bytes(file.read(3, 4)) == b"3456"
        assert bytes(file.read(8, 10)) == b"89"
        assert bytes(file.read(20, 1)) == b""

    def test_hot_range_is_what_was_just_written_or_nothing(self, disk: Disk, home: str) -> None:
        """Not every disk can send; none gives out bytes that it does not have, or that it has not written."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123456789"])
        found = file.hot_range(2, 5)
        if found is not None:
            assert (len(found), bytes(found.read()), bytes(found.read(3))) == (5, b"23456", b"56")

        assert file.hot_range(6, 5) is None
        file.close()
        assert file.hot_range(2, 5) is None
        again = disk.open(f"{home}/x")
        assert again.hot_range(2, 5) is None
        again.append([b"abc"])
        found = again.hot_range(10, 3)
        assert found is None or bytes(found.read()) == b"abc"

    def test_read_resident_returns_all_or_nothing(self, disk: Disk, home: str) -> None:
        """What is not wholly in memory, or does not exist, is None."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123456789"])

        assert file.read_resident(2, 3) in (b"234", None)
        assert file.read_resident(8, 10) is None

    def test_reads_say_how_much_was_in_memory(self, disk: Disk, home: str, settle: Settle) -> None:
        """At once or later, and whatever was looked for before."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123456789"])
        at_once, later = Residency(), Residency(reads_ahead=True)
        file.expect_jumps()
        data = file.read(2, 4, at_once)
        file.read_resident(0, 4)
        results: list[Any] = []
        file.read_later(0, 6, results.append, later)
        settle(lambda: results)

        assert bytes(data) == b"2345"
        for each, size in ((at_once, 4), (later, 6)):
            assert UNMEASURED <= each.resident_bytes <= size
        assert disk.cache_memory_bytes() >= -1

    def test_read_later_delivers_what_read_returns(self, disk: Disk, home: str, settle: Settle) -> None:
        """The result comes after the call, never within it."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123456789"])
        results: list[Any] = []
        file.read_later(2, 3, results.append)
        assert not results

        settle(lambda: results)

        assert [bytes(result) for result in results] == [b"234"]

    def test_truncate_cuts_and_append_goes_on_there(self, disk: Disk, home: str) -> None:
        """The end is where the file was cut."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123456789"])

        file.truncate(4)
        file.append([b"abc"])

        assert file.size_bytes == 7
        assert bytes(file.read(0, 99)) == b"0123abc"

    def test_reopened_file_has_its_contents_and_size(self, disk: Disk, home: str) -> None:
        """Closing and opening changes nothing; closing twice is fine."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123"])
        file.sync()
        file.close()
        file.close()

        again = disk.open(f"{home}/x")

        assert again.size_bytes == 4
        assert bytes(again.read(0, 4)) == b"0123"
        again.append([b"4"])
        assert bytes(again.read(0, 5)) == b"01234"

    def test_closed_file_refuses(self, disk: Disk, home: str) -> None:
        """No descriptor, no bytes."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123"])
        file.close()

        for act in (lambda: file.append([b"x"]), lambda: file.read(0, 1), lambda: file.read_resident(0, 1)):
            with pytest.raises(OSError, match="closed"):
                act()

    def test_open_file_stays_readable_when_it_is_renamed_or_removed(self, disk: Disk, home: str) -> None:
        """A reader keeps what it has opened."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"0123"])

        disk.rename(f"{home}/x", f"{home}/y")
        disk.remove(f"{home}/y")

        assert bytes(file.read(0, 4)) == b"0123"
        assert disk.list(home) == []

    def test_replace_file_makes_or_replaces_and_leaves_nothing_else(self, disk: Disk, home: str) -> None:
        """Synced or not, there is one file, with the new contents."""
        disk.replace_file(f"{home}/x", b"old")
        disk.replace_file(f"{home}/x", b"new", sync=False)

        assert disk.read_file(f"{home}/x") == b"new"
        assert disk.list(home) == ["x"]

    def test_rename_replaces_a_file(self, disk: Disk, home: str) -> None:
        """The target's old contents are gone."""
        disk.replace_file(f"{home}/x", b"x")
        disk.replace_file(f"{home}/y", b"y")

        disk.rename(f"{home}/x", f"{home}/y")

        assert disk.read_file(f"{home}/y") == b"x"
        assert not disk.exists(f"{home}/x")

    def test_rename_moves_a_directory_with_what_is_in_it(self, disk: Disk, home: str) -> None:
        """Files keep their names below the new one."""
        disk.make_directory(f"{home}/d")
        disk.replace_file(f"{home}/d/x", b"x")

        disk.rename(f"{home}/d", f"{home}/e")

        assert disk.read_file(f"{home}/e/x") == b"x"
        assert not disk.exists(f"{home}/d")

    def test_list_is_sorted(self, disk: Disk, home: str) -> None:
        """Order never depends on the file system (D12)."""
        for name in ("b", "a", "c10", "c9"):
            disk.replace_file(f"{home}/{name}", b"")

        assert disk.list(home) == ["a", "b", "c10", "c9"]

    def test_missing_things_raise_file_not_found(self, disk: Disk, home: str) -> None:
        """Reading, removing, renaming and listing need something to be there."""
        acts: list[Callable[[], object]] = [
            lambda: disk.read_file(f"{home}/x"),
            lambda: disk.remove(f"{home}/x"),
            lambda: disk.rename(f"{home}/x", f"{home}/y"),
            lambda: disk.list(f"{home}/x"),
        ]
        for act in acts:
            with pytest.raises(FileNotFoundError):
                act()

    def test_make_directory_accepts_an_existing_one(self, disk: Disk, home: str) -> None:
        """Making it again changes nothing."""
        disk.replace_file(f"{home}/x", b"x")

        disk.make_directory(home)

        assert disk.list(home) == ["x"]

    def test_remove_tree_removes_all_below(self, disk: Disk, home: str) -> None:
        """Nothing of it is left."""
        disk.make_directory(f"{home}/d/e")
        disk.replace_file(f"{home}/d/e/x", b"x")

        disk.remove_tree(f"{home}/d")

        assert disk.list(home) == []

    def test_lock_excludes_others_until_released(self, disk: Disk, home: str) -> None:
        """One holder at a time."""
        lock = disk.lock(f"{home}/.lock")
        with pytest.raises(BlockingIOError):
            disk.lock(f"{home}/.lock")

        lock.release()

        disk.lock(f"{home}/.lock").release()

    def test_lock_knows_its_file_again(self, disk: Disk, home: str) -> None:
        """The same file has the same identity, one word, for every holder."""
        lock = disk.lock(f"{home}/.lock")
        identity = lock.identity()
        lock.release()
        again = disk.lock(f"{home}/.lock")

        assert again.identity() == identity
        assert len(identity.split()) == 1
        again.release()

    def test_run_later_delivers_the_result_or_the_error(self, disk: Disk, root: str, settle: Settle) -> None:
        """Work may read; what it raises is a result like any other."""
        disk.make_directory(root)
        disk.replace_file(f"{root}/x", b"x")
        results: list[Any] = []
        disk.run_later(lambda: disk.read_file(f"{root}/x"), results.append)
        settle(lambda: results)
        disk.run_later(lambda: disk.read_file(f"{root}/y"), results.append)
        settle(lambda: len(results) > 1)

        assert results[0] == b"x"
        assert isinstance(results[1], FileNotFoundError)

    def test_sync_later_reports_none_when_all_is_well(self, disk: Disk, home: str, settle: Settle) -> None:
        """The caller that waits for durability gets the error."""
        file = disk.open(f"{home}/x", create=True)
        file.append([b"x"])
        results: list[Any] = []

        file.sync_later(results.append)
        settle(lambda: results)

        assert results == [None]

    def test_room_and_boot_are_known(self, disk: Disk, home: str) -> None:
        """Room is a number of bytes; within one boot the id stays."""
        assert disk.free_bytes(home) > 0
        assert disk.boot_id() == disk.boot_id()

    def test_hints_for_the_page_cache_change_no_contents(self, disk: Disk, home: str, settle: Settle) -> None:
        """They may be given in any order."""
        file = disk.open(f"{home}/x", create=True)
        file.append([bytes(100_000)])
        file.write_out()
        assert file.drop_before(100_000) in (0, 100_000)
        file.append([b"end"])
        file.write_out()
        file.write_out(is_last=True)
        synced: list[Any] = []
        file.sync_later(synced.append)
        settle(lambda: synced)

        assert bytes(file.read(99_999, 10)) == b"\x00end"
        assert file.size_bytes == 100_003
