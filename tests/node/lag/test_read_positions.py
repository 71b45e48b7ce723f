"""From where consumers fetch, as one broker remembers it: bounded, and by connection."""

from dataclasses import dataclass

from syncline.model.ids import TopicPartition
from syncline.node.lag.read_positions import (
    IDLE_MS,
    INTERVAL_MS,
    LOOK_AGAIN_MS,
    MOMENT_MS,
    NAME_CHARS_MAX,
    POSITIONS_MAX,
    READERS_MAX,
    SHARED_MS,
    SHOWN_MAX,
    STALE_MS,
    TOPICS_MAX,
    ReadPositions,
)

T0 = TopicPartition("t", 0)


@dataclass(eq=False)
class Holding:
    """A connection that may be closed or held back."""

    is_open: bool = True
    held_back_ms: int = 0


def fetch(
    positions: ReadPositions,
    holding: Holding,
    offset: int,
    now_ms: int,
    *,
    key: TopicPartition = T0,
    client_id: str = "app",
) -> bool:
    """Let a connection fetch; return whether there was room for it."""
    reading = positions.reading(client_id, "/10.0.0.1", holding, now_ms)
    if reading is not None:
        positions.note(reading, key, offset, now_ms)
    positions.check_invariants()
    return reading is not None


def test_latest_fetch_of_a_connection_is_its_position() -> None:
    """With the time since then; hosts have no slash."""
    positions = ReadPositions()
    one = Holding()
    fetch(positions, one, 5, 1_000)
    fetch(positions, one, 9, 1_500)

    (found,) = positions.of(T0, 100, 1_700)

    assert (found.client_id, found.host, found.offset, found.fetched_ago_ms) == ("app", "10.0.0.1", 9, 200)
    assert (found.is_shared, found.is_open, found.held_back_share) == (False, True, 0.0)
    assert positions.of(TopicPartition("t", 1), 100, 1_700) == ()


def test_position_at_the_end_is_fetched_with_each_request_of_its_connection() -> None:
    """Guards: a session does not name its quiet partitions, and their reader would look stuck."""
    positions = ReadPositions()
    one = Holding()
    fetch(positions, one, 100, 0)
    positions.reading("app", "/10.0.0.1", one, 60_000)

    assert positions.of(T0, 100, 60_100)[0].fetched_ago_ms == 100
    # Something was appended since, and it has not come for it.
    assert positions.of(T0, 101, 60_100)[0].fetched_ago_ms == 60_100


def test_two_open_connections_with_one_name_share_a_position() -> None:
    """Nobody can tell which of two programs it is; one that has reconnected is one."""
    positions = ReadPositions()
    one, other = Holding(), Holding()
    fetch(positions, one, 5, 1_000)
    fetch(positions, other, 50, 2_000)

    assert positions.of(T0, 100, 2_100)[0][2:4] == (50, 100)
    assert positions.of(T0, 100, 2_100)[0].is_shared
    # A partition that went from one member to another.
    assert not positions.of(T0, 100, 1_000 + SHARED_MS + 1)[0].is_shared
    one.is_open = False
    assert not positions.of(T0, 100, 2_100)[0].is_shared


def test_consumer_that_reads_elsewhere_has_no_position_here() -> None:
    """It was sent to a replica near it."""
    positions = ReadPositions()
    one = Holding()
    fetch(positions, one, 5, 1_000)
    reading = positions.reading("app", "/10.0.0.1", one, 1_100)
    assert reading is not None
    positions.forget(reading, T0)
    positions.forget(reading, T0)

    assert (positions.of(T0, 100, 1_200), len(positions)) == ((), 0)


def sweep(positions: ReadPositions, *deleted: TopicPartition, end: int = 100) -> None:
    """Forget what is not fetched any more; all partitions end there but for those that were deleted."""
    for _ in positions.sweep(lambda key: None if key in deleted else end):
        positions.check_invariants()
    positions.check_invariants()


def test_partition_that_was_deleted_is_forgotten() -> None:
    """Guards: its positions were kept for as long as the connection."""
    positions = ReadPositions()
    one, other = Holding(), TopicPartition("other", 0)
    fetch(positions, one, 5, 1_000)
    fetch(positions, one, 5, 1_000, key=other)
    sweep(positions, T0)

    assert (positions.of(T0, 100, 1_000), len(positions)) == ((), 1)
    assert len(positions.of(other, 100, 1_000)) == 1


def test_partition_that_a_connection_does_not_fetch_any_more_is_forgotten() -> None:
    """After an hour, as it may be paused; one at the end may be of a session, and one that is stuck is kept."""
    positions = ReadPositions()
    one, stuck = Holding(), Holding()
    left, quiet, read = (TopicPartition("t", each) for each in range(3))
    for key, offset in ((left, 5), (quiet, 100), (read, 5)):
        fetch(positions, one, offset, 0, key=key)
    fetch(positions, stuck, 5, 0, key=read, client_id="stuck")
    found = []
    for now_ms in (STALE_MS, STALE_MS + 1):
        fetch(positions, one, 5, now_ms, key=read)
        sweep(positions)
        found.append([len(positions.of(key, 100, now_ms)) for key in (left, quiet, read)])

    assert found == [[1, 1, 2], [0, 1, 2]]


def test_connection_that_fetched_for_a_moment_is_forgotten_when_it_is_gone() -> None:
    """Guards: hundreds of short connections were remembered for good, each on pages of its own."""
    positions = ReadPositions()
    consumer, tool, open_one = Holding(), Holding(), Holding()
    for now_ms, each in ((0, consumer), (0, tool), (1_000, tool), (MOMENT_MS, consumer), (MOMENT_MS, open_one)):
        fetch(positions, each, 5, now_ms, client_id=f"c-{id(each)}")
    consumer.is_open = tool.is_open = False
    for _ in positions.sweep(lambda _: 100):
        positions.check_invariants()

    assert {each.client_id for each in positions.of(T0, 100, 20_000)} == {f"c-{id(consumer)}", f"c-{id(open_one)}"}
    positions.check_invariants()


def test_connection_that_makes_room_while_it_is_forgotten_is_forgotten_once() -> None:
    """Another one took its place between two steps of the sweep."""
    positions = ReadPositions()
    tool = Holding()
    for partition in range(3):
        fetch(positions, tool, 5, 0, key=TopicPartition("t", partition))
    for number in range(READERS_MAX - 1):
        fetch(positions, Holding(), 5, 1, client_id=f"c-{number}")
    tool.is_open = False
    sweep = positions.sweep(lambda _: 100)
    next(sweep)
    assert fetch(positions, Holding(), 5, 2)
    for _ in sweep:
        positions.check_invariants()

    positions.check_invariants()
    assert len(positions) == READERS_MAX


def test_connection_that_changes_its_topics_has_room_for_new_ones() -> None:
    """Guards: the first topics that a connection had fetched kept their places for as long as it was there."""
    positions = ReadPositions()
    one = Holding()
    for number in range(TOPICS_MAX):
        # Half of them were read to their ends.
        fetch(positions, one, 5 if number % 2 else 100, 0, key=TopicPartition(f"old-{number}", 0))
    new = TopicPartition("new", 0)
    counts = []
    for now_ms in (1, IDLE_MS + 1):
        fetch(positions, one, 5, now_ms, key=new)
        fetch(positions, one, 5, now_ms, key=TopicPartition("old-1", 0))
        sweep(positions)
        fetch(positions, one, 5, now_ms, key=new)
        counts.append((len(positions.of(new, 100, now_ms)), len(positions)))

    assert counts == [(0, TOPICS_MAX), (1, 2)]


def test_pages_have_each_position_once() -> None:
    """Connections with one name have one row for a partition; what has no high watermark has none."""
    positions = ReadPositions()
    keys = [TopicPartition("t", number) for number in range(7)]
    for holding, client_id, read in (
        (Holding(), "a", keys),
        (Holding(), "b", keys[:3]),
        (Holding(), "a", keys[5:]),
        (Holding(), "c", keys[:1]),
    ):
        for key in read:
            fetch(positions, holding, 5, 1, key=key, client_id=client_id)
    pages = [
        positions.page(first, 4, lambda key: None if key == keys[1] else 100, 1)
        for first in range(0, len(positions), 4)
    ]
    rows = [(reader.client_id, key.partition, reader.is_shared) for page in pages for key, reader in page]

    assert max(map(len, pages)) <= 4
    assert sorted(rows) == [
        *(("a", number, number >= 5) for number in (0, 2, 3, 4, 5, 6)),
        ("b", 0, False),
        ("b", 2, False),
        ("c", 0, False),
    ]


def test_share_of_time_that_a_connection_was_held_back() -> None:
    """Of the last minute or two; what is longer ago counts no more."""
    positions = ReadPositions()
    one = Holding()
    fetch(positions, one, 5, 0)
    one.held_back_ms = 30_000

    assert positions.of(T0, 100, 40_000)[0].held_back_share == 0.5
    for minute in (1, 2, 3):
        fetch(positions, one, 5, minute * INTERVAL_MS)
    assert positions.of(T0, 100, 3 * INTERVAL_MS)[0].held_back_share == 0.0


def test_readers_are_bounded_and_those_that_are_gone_make_room() -> None:
    """A closed connection first, then one that has not fetched for long; else the newest is not remembered."""
    positions = ReadPositions()
    all_of_them = [Holding() for _ in range(READERS_MAX)]
    for number, each in enumerate(all_of_them):
        fetch(positions, each, number, number, client_id=f"c-{number}")

    assert not fetch(positions, Holding(), 1, 1_000)
    all_of_them[3].is_open = False
    assert not fetch(positions, Holding(), 1, 1_001)
    assert fetch(positions, Holding(), 1, 1_000 + LOOK_AGAIN_MS)
    assert len(positions.of(T0, 10_000, 3_000)) == SHOWN_MAX
    assert not fetch(positions, Holding(), 1, 2_001)
    assert fetch(positions, Holding(), 1, IDLE_MS + 1)
    assert not fetch(ReadPositions(), Holding(), 1, 1, client_id="x" * (NAME_CHARS_MAX + 1))


def test_topics_of_a_reader_and_all_positions_are_bounded() -> None:
    """Whatever one client asks for."""
    positions = ReadPositions()
    one, many = Holding(), Holding()
    for number in range(TOPICS_MAX + 1):
        fetch(positions, one, 1, 1, key=TopicPartition(f"t-{number}", 0))
    reading = positions.reading("app", "/10.0.0.1", many, 2)
    assert reading is not None
    for number in range(POSITIONS_MAX + 10):
        positions.note(reading, TopicPartition("u", number), 1, 2)

    positions.check_invariants()
    assert len(positions) == POSITIONS_MAX
    assert positions.of(TopicPartition(f"t-{TOPICS_MAX - 1}", 0), 9, 9)
    assert not positions.of(TopicPartition(f"t-{TOPICS_MAX}", 0), 9, 9)
