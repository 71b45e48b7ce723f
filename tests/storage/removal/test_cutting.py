"""Cutting a log in two parts, a plan that may wait for the disk and a cut that reads nothing, is one cut."""

import errno
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.core.producer_state import ProducerTable
from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader
from syncline.storage.disk import Residency
from syncline.storage.errors import LogOfflineError
from syncline.storage.log import PartitionLog
from syncline.storage.removal import cutting
from syncline.storage.removal.cutting import CutPlan, CutSearch
from tests.storage.batches import KEY, TOPIC_ID, append, contents, open_directory, truncate_to
from tests.storage.conftest import SMALL
from tests.storage.recording_disk import RecordingDisk, RecordingFile


class WatchedFile(RecordingFile):
    """A file that may be out of memory, and that records the threads that wait for it."""

    disk: "WatchedDisk"

    def read_resident(self, position: int, size: int) -> bytes | None:
        """Return bytes unless the disk is cold."""
        return None if self.disk.is_cold else super().read_resident(position, size)

    def read(self, position: int, size: int, residency: Residency | None = None) -> bytes:
        """Return bytes, and record which thread waited for them."""
        self.disk.note_read()
        return super().read(position, size, residency)


class WatchedDisk(RecordingDisk):
    """Counts the reads that the loop waited for."""

    is_cold = False
    is_pumping = False
    loop_reads = 0
    worker_reads = 0

    def note_read(self) -> None:
        """Count a read that waits for the disk."""
        if self.is_pumping:
            self.worker_reads += 1
        else:
            self.loop_reads += 1

    def open(self, path: str, *, create: bool = False) -> WatchedFile:
        """Open a file."""
        plain = super().open(path, create=create)
        file = WatchedFile(self, path, plain.inode)
        file.disk = self
        return file

    def read_file(self, path: str) -> bytes:
        """Read a whole file."""
        self.note_read()
        return super().read_file(path)

    def pump(self) -> int:
        """Do what waits in the background."""
        self.is_pumping = True
        try:
            return super().pump()
        finally:
            self.is_pumping = False


class Scene:
    """A log to which some things have happened."""

    def __init__(self, steps: Sequence[tuple[str, int]] = ()) -> None:
        self.disk = WatchedDisk()
        self.directory = open_directory(self.disk, SMALL)
        self.log = self.directory.create(KEY, TOPIC_ID, SMALL)
        self.epoch = 0
        self.sequences = dict.fromkeys(range(3), 0)
        self.batches: list[bytes] = []
        for name, number in steps:
            self.step(name, number)
        self.log.high_watermark = self.log.log_end
        self.disk.loop_reads = 0

    def step(self, name: str, number: int) -> None:
        """Let one thing happen."""
        if name == "append":
            count, producer = number % 3 + 1, number // 3 % 4
            fields: dict[str, Any] = {"count": count, "timestamp_ms": 1_000 + number * 37 % 100}
            if producer < 3:
                fields["producer"] = (producer, 0, self.sequences[producer])
                self.sequences[producer] += count
            self.batches.append(append(self.log, self.epoch, **fields))
        elif name == "lead":
            self.epoch += 1
            self.log.assign_leader_epoch(self.epoch)  # type: ignore[arg-type]
        elif name == "flush":
            self.log.flush()
        elif name == "pump":
            self.disk.pump()
        else:
            self.disk.pump()
            self.directory.close(1)
            self.directory = open_directory(self.disk, SMALL)
            self.log = self.directory.logs.get(KEY) or self.directory.create(KEY, TOPIC_ID, SMALL)

    def cut_by_plan(self, offset: int) -> None:
        """Cut as a broker does whose log is in memory, or is not."""
        plan = self.log.plan_cut(Offset(offset))
        if isinstance(plan, CutSearch):
            found: list[Any] = []
            self.disk.run_later(plan.run, found.append)
            self.disk.pump()
            (plan,) = found
        assert isinstance(plan, CutPlan), plan
        assert self.log.cut(plan)

    def state(self) -> dict[str, Any]:
        """Return all that is to be equal."""
        log = self.log
        log.check_invariants()
        return {
            "offsets": (log.log_start, log.log_end, log.high_watermark, log.recovery_point),
            "segments": [(each.base_offset, each.generation, *each.figures) for each in log.segments],
            "index": [] if log.segments[-1].index is None else log.segments[-1].index.encode(),
            "times": [] if log.segments[-1].times is None else log.segments[-1].times.encode(),
            "tail": (log.segments[-1].tail_floor, *log.segments[-1].tail_ends, *log.segments[-1].tail_positions),
            "epochs": list(log.epochs.entries),
            "producers": log.producers,
            "contents": contents(log),
            "files": self.disk.image.tree(),
        }


def kept(batches: list[bytes], offset: int) -> list[BatchHeader]:
    """Return the headers of what must be left."""
    headers = [BatchHeader.parse(data, 0) for data in batches]
    return [header for header in headers if header.next_offset <= offset]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 50)),
        st.tuples(st.sampled_from(("lead", "flush", "pump", "reopen")), st.just(0)),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(STEPS, st.integers(0, 40), st.integers(0, 5))
def test_planned_cut_leaves_what_a_cut_in_one_piece_leaves(
    steps: list[tuple[str, int]], offset: int, appended: int
) -> None:
    """Random logs: from memory, by a worker, and in one piece; producers, indexes and files included."""
    whole, warm, cold = Scene(steps), Scene(steps), Scene(steps)
    cold.disk.is_cold = True
    for scene in (whole, warm, cold):
        scene.disk.pump()
    truncate_to(whole.log, Offset(offset))
    warm.cut_by_plan(offset)
    cold.cut_by_plan(offset)
    left = kept(whole.batches, offset)
    producers = ProducerTable()
    for header in left:
        producers.record(header)
    cold_reads = cold.disk.loop_reads
    cold.disk.is_cold = False

    assert cold_reads == 0, "the loop waited for the disk"
    assert [base for base, _ in contents(warm.log)] == [header.base_offset for header in left]
    assert warm.log.producers == whole.log.producers == producers
    assert whole.state() == warm.state() == cold.state()
    for scene in (whole, warm, cold):
        for number in range(appended):
            append(scene.log, scene.epoch + 1, count=number % 2 + 1)
        scene.log.flush()
    assert whole.state() == warm.state() == cold.state()


def long_scene(*, is_cold: bool) -> Scene:
    """Return a log of several segments and a producer."""
    scene = Scene([("append", 0)] * 14 + [("pump", 0)])
    scene.disk.is_cold = is_cold
    return scene


def test_plan_is_made_at_once_when_everything_is_in_memory() -> None:
    """The usual case, also across segments and a snapshot of producers: no worker, no read that waits."""
    scene = long_scene(is_cold=False)

    plan = scene.log.plan_cut(Offset(9))

    assert isinstance(plan, CutPlan)
    assert plan.producers is not None
    assert scene.disk.loop_reads == 0


@pytest.mark.interpreted
def test_plan_is_left_to_a_worker_when_it_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking producers up in a long stretch holds the loop up even if it is in memory."""
    monkeypatch.setattr(cutting, "AT_ONCE_BYTES", 100)

    assert isinstance(long_scene(is_cold=False).log.plan_cut(Offset(9)), CutSearch)


def test_search_changes_nothing_until_the_cut() -> None:
    """Until then the whole log is there, for instance if this replica becomes leader."""
    scene = long_scene(is_cold=True)
    search = scene.log.plan_cut(Offset(5))
    assert isinstance(search, CutSearch)
    scene.disk.run_later(search.run, lambda _: None)
    ops = len(scene.disk.ops)
    scene.disk.pump()

    assert scene.disk.worker_reads > 0
    assert len(scene.disk.ops) == ops
    assert scene.log.log_end == 14
    assert scene.log.segments[-1].open_file is not None
    append(scene.log)
    scene.disk.is_cold = False
    assert len(contents(scene.log)) == 15


@pytest.mark.parametrize("event", ["append", "cut", "restart", "retention"])
def test_stale_plan_is_refused_when_the_log_has_changed(event: str) -> None:
    """The plan was made for another log: it changes nothing, and a new plan works."""
    scene = long_scene(is_cold=False)
    log = scene.log
    plan = log.plan_cut(Offset(9))
    assert isinstance(plan, CutPlan)
    if event == "append":
        append(log)
    elif event == "cut":
        truncate_to(log, Offset(13))
        append(log)
    elif event == "restart":
        log.restart_at(Offset(14))
    else:
        log.retention(10**15)
    before = (log.log_end, log.size_bytes, len(scene.disk.ops))

    assert not log.cut(plan)
    assert (log.log_end, log.size_bytes, len(scene.disk.ops)) == before
    scene.cut_by_plan(9)
    assert log.log_end == 9


def test_search_fails_the_log_when_the_disk_refuses() -> None:
    """An I/O error takes the log offline; a lack of descriptors, or a log that has changed since, does not."""
    scene = long_scene(is_cold=True)
    log = scene.log
    search = log.plan_cut(Offset(9))
    assert isinstance(search, CutSearch)

    log.search_failed(search, OSError(errno.EMFILE, "too many open files"))
    append(log)
    log.search_failed(search, OSError(errno.EIO, "an error"))
    assert not log.is_offline
    again = log.plan_cut(Offset(9))
    assert isinstance(again, CutSearch)
    with pytest.raises(LogOfflineError, match="Cannot truncate"):
        log.search_failed(again, OSError(errno.EIO, "an error"))
    assert log.is_offline


def test_restart_reads_nothing() -> None:
    """A log that restarts at another offset needs nothing of what it held."""
    scene = long_scene(is_cold=True)

    scene.log.restart_at(Offset(99))

    assert (scene.log.log_start, scene.log.log_end) == (99, 99)
    assert (scene.disk.loop_reads, scene.disk.worker_reads) == (0, 0)


def test_cut_reads_nothing_when_the_index_is_on_the_disk_only() -> None:
    """A finished segment that was not read for long has neither file nor index in memory."""
    scene = Scene([("append", 0)] * 40 + [("pump", 0), ("reopen", 0)])
    scene.disk.is_cold = True
    log: PartitionLog = scene.log
    assert log.segments[0].index is None

    scene.cut_by_plan(2)

    assert scene.disk.loop_reads == 0
    assert log.log_end == 2
    scene.disk.is_cold = False
    assert len(contents(log)) == 2
