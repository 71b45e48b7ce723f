"""Places: where an offset lies, when it came and how long it stays, in memory and on the disk; and what reads tell."""

import errno
import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import Offset
from syncline.model.lag import OffsetPlace
from syncline.records.batch import BatchHeader, stamp, stamp_append_time
from syncline.records.builder import BatchBuilder
from syncline.storage.arrivals.append_times import STEP_MS
from syncline.storage.arrivals.read_facts import ReadFacts, facts_of
from syncline.storage.disk import Residency
from syncline.storage.lag import places
from syncline.storage.lag.places import PlaceSearch
from syncline.storage.log import PartitionLog
from syncline.storage.segments.batch_walk import HeaderReader
from syncline.storage.segments.reading import Slice
from syncline.storage.settings import LogSettings
from tests.storage.arrivals.test_append_times import BEGAN_MS, start_again
from tests.storage.batches import KEY, TOPIC_ID, append, batch, open_directory, truncate_to
from tests.storage.lag.test_byte_lag import KB, THOUSANDTH, append_sized
from tests.storage.recording_disk import RecordingDisk, RecordingFile

# Where a batch says which offset is its last.
LAST_OFFSET_DELTA_POSITION = 23
LARGE = LogSettings(segment_bytes=1 << 30, retention_ms=-1)
SMALL = replace(LARGE, segment_bytes=340, index_interval_bytes=100)


def new_log(log_settings: LogSettings = LARGE) -> PartitionLog:
    """Return an empty log on a disk of its own."""
    return open_directory(RecordingDisk(), log_settings).create(KEY, TOPIC_ID, log_settings)


def place(log: PartitionLog, offset: int, *, is_exact: bool = True) -> OffsetPlace:
    """Return the place of an offset, waiting for the disk."""
    found = log.place(Offset(offset), is_exact=is_exact)
    return found.run() if isinstance(found, PlaceSearch) else found


def facts(log: PartitionLog, offset: int) -> ReadFacts:
    """Return what a read from an offset tells, whoever finds its bytes."""
    plan = log.read_plan(Offset(offset), 1, log.log_end)
    if isinstance(plan, Slice):
        return facts_of(*log.read_noted(Offset(offset), plan))
    report = log.read_report(Offset(offset), with_time=True)
    plan.read(report)
    return facts_of(*report.noted())


def test_l12_a_place_is_that_of_the_whole_batch_and_without_a_walk_one_index_interval_before() -> None:
    """1,537 lies in the batch at 52 kB of its segment: 188 kB before the end."""
    log = new_log(THOUSANDTH)
    append_sized(log, 1000, 100 * KB)
    for records, size_bytes in [(10, KB)] * 52 + [(40, KB)] + [(10, KB)] * 43 + [(10, 4 * KB)]:
        append_sized(log, records, size_bytes)
    append_sized(log, 1000, 100 * KB)
    append_sized(log, 1000, 40 * KB)
    end_bytes = log.byte_bounds()[1]
    exact, quick = place(log, 1537), place(log, 1537, is_exact=False)

    assert end_bytes - exact.coordinate_bytes == 188 * KB
    assert 0 < exact.coordinate_bytes - quick.coordinate_bytes <= 4096 + KB
    assert exact.segment_end_bytes == quick.segment_end_bytes == 200 * KB


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("is_descending", [True, False])
@pytest.mark.interpreted
def test_places_of_many_offsets_are_those_of_each(
    is_exact: bool, is_descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over segments, in either order; ascending, what is read for a batch serves for all three offsets in it."""
    log = new_log(SMALL)
    for number in range(12):
        append(log, count=3, append_ms=BEGAN_MS + 1_000 * number, timestamp_ms=50 + number)
    offsets = sorted(map(Offset, range(37)), reverse=is_descending)
    read: list[int] = []
    header_at = HeaderReader.header_at
    monkeypatch.setattr(HeaderReader, "header_at", lambda self, at: read.append(at) or header_at(self, at))
    together = log.places(offsets, is_exact=is_exact)
    count = len(read)

    assert together == [log.place(offset, is_exact=is_exact) for offset in offsets]
    assert 0 < count <= (len(read) - count) // (1 if is_descending else 2)


def test_the_log_end_has_a_place_without_times() -> None:
    """No record is there yet; offsets beyond count as the end, those below the start as the start."""
    log = new_log()
    for number in range(4):
        append(log, append_ms=BEGAN_MS + 1_000 * number, timestamp_ms=50 + number)
    log.high_watermark = log.log_end
    log.raise_log_start(Offset(2))
    end = OffsetPlace(Offset(4), log.size_bytes, -1, -1, -1, -1, log.size_bytes, is_estimated=False)

    assert place(log, 4) == place(log, 9) == end
    assert place(log, 0) == place(log, 2)
    assert (place(log, 2).append_ms, place(log, 2).event_ms) == (BEGAN_MS + 2_000, 52)


@pytest.mark.parametrize("is_clean", [True, False])
def test_l15_places_are_the_same_after_a_restart(is_clean: bool) -> None:
    """Guards: a tool that watches from outside has to watch for minutes first. After a crash, as far as was saved."""
    disk = RecordingDisk()
    directory = open_directory(disk, SMALL)
    log = directory.create(KEY, TOPIC_ID, SMALL)
    for number in range(40):
        append(log, append_ms=BEGAN_MS + 1_000 * number, timestamp_ms=100 * number + 1)
        disk.pump()
    log.append_times.save()
    # How many records lie before is another matter: what nobody walks is not counted.
    before = [place(log, offset)._replace(readable_before=-1) for offset in range(40)]
    log = start_again(disk, directory, SMALL, is_clean=is_clean)

    assert [each.append_ms for each in before] == [BEGAN_MS + 1_000 * number for number in range(40)]
    assert [place(log, offset)._replace(readable_before=-1) for offset in range(40)] == before


def test_an_offset_without_an_entry_came_in_the_middle_of_what_is_possible() -> None:
    """Less than 250 ms after the entry before, and not after the next: wrong by 125 ms at most."""
    log = new_log()
    for append_ms in (0, 100, 260, 300, 550):
        append(log, append_ms=BEGAN_MS + append_ms)
    log.roll()
    append(log, append_ms=BEGAN_MS + 900)
    found = [place(log, offset) for offset in range(6)]

    assert [each.append_ms - BEGAN_MS for each in found] == [0, 125, 260, 385, 550, 900]
    assert not any(each.is_estimated for each in found)


def test_a_topic_that_stores_append_times_is_exact() -> None:
    """Whatever its entries say, or without any."""
    log = new_log()
    for number, append_ms in enumerate((5_000, 5_001)):
        data = batch(number, timestamp_ms=7)
        header = stamp_append_time(data, 0, BatchHeader.parse(data), BEGAN_MS + append_ms)
        stamp(data, 0, number, 0)
        log.append_as_leader(memoryview(data), header._replace(base_offset=number, leader_epoch=0))

    assert [place(log, offset).append_ms for offset in (0, 1)] == [BEGAN_MS + 5_000, BEGAN_MS + 5_001]
    assert not place(log, 1).is_estimated


def test_records_of_an_older_version_have_the_time_of_their_producer() -> None:
    """It is marked: nobody noted when they came."""
    log = new_log()
    append(log, timestamp_ms=BEGAN_MS + 77)
    append(log, append_ms=BEGAN_MS + 90_000, timestamp_ms=BEGAN_MS + 5)

    assert (place(log, 0).append_ms, place(log, 0).is_estimated) == (BEGAN_MS + 77, True)
    assert (place(log, 1).append_ms, place(log, 1).is_estimated) == (BEGAN_MS + 90_000, False)


@pytest.mark.parametrize(
    ("event_ms", "estimate_ms"), [(3_100, 3_100), (500, 1_000), (20_000, 9_000), (-BEGAN_MS - 1, 1_000)]
)
def test_in_a_gap_the_time_is_the_producers_as_far_as_the_neighbours_allow(event_ms: int, estimate_ms: int) -> None:
    """Guards: the middle of a gap that a night lies in says that records are hours old that came before the crash."""
    disk = RecordingDisk()
    directory = open_directory(disk, LARGE)
    log = directory.create(KEY, TOPIC_ID, LARGE)
    for append_ms in (0, 1_000):
        append(log, append_ms=BEGAN_MS + append_ms, timestamp_ms=BEGAN_MS)
    log.append_times.save()
    append(log, append_ms=BEGAN_MS + 3_000, timestamp_ms=BEGAN_MS + event_ms)
    log = start_again(disk, directory, LARGE, is_clean=False)
    append(log, append_ms=BEGAN_MS + 9_000, timestamp_ms=BEGAN_MS)

    assert (place(log, 2).append_ms, place(log, 2).is_estimated) == (BEGAN_MS + estimate_ms, True)


def test_a_place_tells_until_when_retention_keeps_it() -> None:
    """An older segment with a later timestamp protects those behind it; the active one is not exempt."""
    log = new_log(replace(SMALL, segment_bytes=100, retention_ms=10_000))
    for timestamp_ms in (1_000, 9_000, 4_000, 12_000, 11_000):
        append(log, timestamp_ms=timestamp_ms)
    assert log.segment_count == 5
    kept = [19_000, 19_000, 22_000, 22_000]

    assert [place(log, offset).kept_until_ms for offset in range(5)] == [11_000, *kept]
    log.high_watermark = log.log_end
    log.raise_log_start(Offset(1))
    assert len(log.retention(0)) == 1
    assert [place(log, offset).kept_until_ms for offset in range(1, 5)] == kept
    truncate_to(log, Offset(4))
    append(log, timestamp_ms=30_000)
    assert place(log, 4).kept_until_ms == 40_000
    for never in (replace(log.settings, retention_ms=-1), replace(log.settings, is_delete_policy=False)):
        due, log.settings = log.settings, never
        assert place(log, 4).kept_until_ms == -1
        log.settings = due
    # What has no time never expires, and keeps all behind it.
    append(log, timestamp_ms=-1)
    append(log, timestamp_ms=40_000)
    assert [place(log, offset).kept_until_ms for offset in (4, 5, 6)] == [40_000, -1, -1]


def test_segments_that_were_cut_and_filled_again_are_added_up_again() -> None:
    """Guards: after a cut, segments with other batches may begin at the same offsets."""
    log = new_log(replace(SMALL, segment_bytes=100, retention_ms=10_000))
    for timestamp_ms in (1_000, 9_000, 4_000):
        append(log, timestamp_ms=timestamp_ms)
    bases = [segment.base_offset for segment in log.segments]
    assert (place(log, 1).kept_until_ms, place(log, 2).readable_before) == (19_000, 2)
    truncate_to(log, Offset(1))
    append_holed(log, is_control=True)
    append(log, timestamp_ms=50_000)

    assert [segment.base_offset for segment in log.segments] == bases == [0, 1, 2]
    assert (place(log, 1).kept_until_ms, place(log, 2).readable_before) == (11_000, 1)
    assert place(log, 2).kept_until_ms == 60_000


def test_a_read_by_a_worker_tells_what_was_true_when_it_began() -> None:
    """Guards: records that came while the disk was slow counted as lag of a reader that could not know them."""
    disk = RecordingDisk()
    log = open_directory(disk, SMALL).create(KEY, TOPIC_ID, SMALL)
    for number in range(40):
        append(log, append_ms=BEGAN_MS + 1_000 * number, timestamp_ms=100 + number)
        disk.pump()
    size_bytes = log.size_bytes // 40
    plan = log.read_plan(Offset(2), 1, log.log_end)
    assert not isinstance(plan, Slice)
    report = log.read_report(Offset(2), with_time=True)
    append(log, append_ms=BEGAN_MS + 90_000, timestamp_ms=5_000)
    plan.read(report)

    assert facts_of(*report.noted()) == ReadFacts(
        40 * size_bytes, 2 * size_bytes, 139, BEGAN_MS + 2_000, 38 * size_bytes, is_estimated=False
    )


def test_a_read_is_good_though_its_append_time_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a hint: the read tells everything else."""
    disk = RecordingDisk()
    log = open_directory(disk, SMALL).create(KEY, TOPIC_ID, SMALL)
    for number in range(40):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
        disk.pump()
    read = RecordingFile.read

    def broken(file: RecordingFile, position: int, size: int, residency: Residency | None = None) -> bytes:
        if file.path.endswith(".appendtimes"):
            raise OSError(errno.EIO, "Input/output error")
        return read(file, position, size, residency)

    monkeypatch.setattr(RecordingFile, "read", broken)
    told = facts(log, 2)

    assert (told.append_ms, told.distance_bytes) == (-1, -1)
    assert told.end_bytes - told.coordinate_bytes == log.size_bytes // 40 * 38


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 900), st.integers(1, 3)), min_size=1, max_size=60),
    st.integers(0, 59),
    st.integers(2, 9),
    st.randoms(use_true_random=False),
)
def test_places_and_reads_agree_with_brute_force(
    batches: list[tuple[int, int]], cut_at: int, every: int, rng: random.Random
) -> None:
    """Bytes to the byte, times within half a step, over segments, saves, a cut and a start."""
    disk = RecordingDisk()
    directory = open_directory(disk, SMALL)
    log = directory.create(KEY, TOPIC_ID, SMALL)
    # By batch: first and last offset, coordinate, times of append and of the producer.
    came: list[tuple[int, int, int, int, int]] = []
    now_ms = BEGAN_MS
    for number, (pause_ms, count) in enumerate(batches):
        now_ms += pause_ms
        start, before_bytes = log.log_end, log.byte_bounds()[1]
        event_ms = now_ms + rng.randint(-5_000, 5_000)
        append(log, append_ms=now_ms, count=count, timestamp_ms=event_ms)
        came.append((start, log.log_end - 1, before_bytes, now_ms, event_ms + count - 1))
        if number % every == 0:
            log.append_times.save()
            disk.pump()
    is_cut = cut_at < len(came) and rng.random() < 0.3
    is_warm = not is_cut or log.segments[0].append_times.recent is not None
    if is_cut:
        truncate_to(log, Offset(came[cut_at][0]))
        del came[cut_at:]
    disk.pump()
    for is_restarted in (False, True):
        if is_restarted:
            log = start_again(disk, directory, SMALL, is_clean=True)
        newest_ms = [segment.max_timestamp_ms for segment in log.segments if segment.size_bytes]
        end_bytes = log.byte_bounds()[1]
        for start, last, coordinate, append_ms, event_ms in came:
            for offset in {start, last}:
                found = place(log, offset)
                assert (found.coordinate_bytes, found.event_ms) == (coordinate, event_ms)
                told = facts(log, offset)
                assert (told.end_bytes, told.coordinate_bytes) == (end_bytes, coordinate)
                assert told.newest_event_ms == newest_ms[-1]
                if is_warm:
                    assert abs(found.append_ms - append_ms) <= STEP_MS // 2
                    assert not found.is_estimated
                    assert told.append_ms < 0 or abs(told.append_ms - append_ms) <= STEP_MS // 2
                    assert told.append_ms < 0 or told.distance_bytes >= 0


def append_holed(log: PartitionLog, *, is_control: bool = False, records: int = 1, offsets: int = 1) -> None:
    """Append a marker, or a batch of which compaction has left so many records."""
    builder = BatchBuilder(is_transactional=is_control, is_control=is_control)
    for _ in range(records):
        builder.append(1_000, b"key", b"value")
    data = builder.build()
    struct.pack_into(">i", data, LAST_OFFSET_DELTA_POSITION, offsets - 1)
    stamp(data, 0, log.log_end, 0)
    log.append_as_leader(memoryview(data), BatchHeader.parse(data), BEGAN_MS)


@pytest.mark.parametrize("log_settings", [LARGE, SMALL], ids=["one-segment", "several"])
def test_l20_markers_and_what_compaction_removed_are_no_records(log_settings: LogSettings) -> None:
    """Three records, a marker, five records on ten offsets, two records, a marker: ten records on 17 offsets."""
    log = new_log(log_settings)
    append(log, count=3)
    append_holed(log, is_control=True)
    append_holed(log, records=5, offsets=10)
    append(log, count=2)
    append_holed(log, is_control=True)
    log.check_invariants()

    assert [place(log, offset).readable_before for offset in (0, 2, 3, 4, 14, 15, 16)] == [0, 2, 3, 3, 8, 9, 10]
    assert log.readable_before(log.log_end) == 10


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.interpreted
def test_records_before_a_place_are_counted_within_a_bound(monkeypatch: pytest.MonkeyPatch, is_wanted: bool) -> None:
    """Guards: a worker walked over all batches of a segment; the place itself is found however far in it lies."""
    log = new_log()
    append_holed(log, is_control=True)
    for _ in range(9):
        append(log)
    monkeypatch.setattr(places, "COUNTED_BATCHES_MAX", 5)
    near, far = log.place(Offset(5), is_exact=True), log.place(Offset(6), is_exact=True)
    assert isinstance(near, PlaceSearch)
    assert isinstance(far, PlaceSearch)
    found = [each.run(lambda: is_wanted) for each in (near, far)]

    assert [each.readable_before for each in found] == [4 if is_wanted else -1, -1]
    assert [each.event_ms for each in found] == [1_000, 1_000]
    assert found[0].coordinate_bytes < found[1].coordinate_bytes


def test_records_are_counted_where_they_were_written_or_scanned() -> None:
    """After a clean stop nobody has looked at older batches: the number below them is unknown."""
    disk = RecordingDisk()
    directory = open_directory(disk, SMALL)
    log = directory.create(KEY, TOPIC_ID, SMALL)
    for _ in range(12):
        append(log, append_ms=BEGAN_MS)
    assert (place(log, 1).readable_before, log.readable_before(Offset(12))) == (1, 12)
    trusted = start_again(disk, directory, SMALL, is_clean=True)
    assert place(trusted, 1).readable_before == -1
    trusted.roll()
    for _ in range(3):
        append(trusted, append_ms=BEGAN_MS)

    assert place(trusted, 1).readable_before == -1
    assert trusted.readable_before(Offset(15)) - place(trusted, 12).readable_before == 3


def test_records_that_a_scan_has_seen_are_counted() -> None:
    """Nothing was flushed before the crash, so all is read again."""
    disk = RecordingDisk()
    directory = open_directory(disk, LARGE)
    log = directory.create(KEY, TOPIC_ID, LARGE)
    for _ in range(12):
        append(log, append_ms=BEGAN_MS)
    scanned = start_again(disk, directory, LARGE, is_clean=False)

    assert (place(scanned, 1).readable_before, scanned.readable_before(Offset(12))) == (1, 12)


def test_cut_takes_the_holes_along() -> None:
    """What is written after a cut is counted like the rest."""
    log = new_log()
    append(log, count=3)
    append_holed(log, is_control=True)
    append(log, count=2)
    truncate_to(log, Offset(3))
    append(log, count=4)

    assert log.readable_before(log.log_end) == 7
    assert place(log, 5).readable_before == 5
