"""Leader epochs after a real election: the leader of epoch 0 has left, the broker beside it leads epoch 1."""

from tests.conformance.apis import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, every
from tests.conformance.batches import batch
from tests.conformance.requests import delete_records, fetch, leader_epochs, list_offsets, produce
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, Departure, Saved, broker, sequence, topic

WORLD = DEPARTED
REPLICAS = (3, 0, 1)


def written(to: int, *values: str, topic_name: str = "t") -> Action:
    """Return one batch to a broker that leads partition 0, acknowledged by all."""
    return produce(7, {topic_name: {0: batch(*values)}}, to=broker(to), quiet=True)


def at_high_watermark(offset: int, topic_name: str = "t") -> Action:
    """Return a wait until everything below `offset` is committed at the new leader."""
    settled = {"responses.0.partitions.0.high_watermark": offset}
    return fetch(4, {topic_name: {0: 0}}, to=broker(0), quiet=True, settle=settled)


def _two_epochs() -> list[Action]:
    """Return three records of epoch 0 and two of epoch 1."""
    return [written(3, "a", "b", "c"), Departure(), at_high_watermark(3), written(0, "d", "e"), at_high_watermark(5)]


@sequence(*every(OFFSET_FOR_LEADER_EPOCH), t=topic(REPLICAS))
def ends_of_epochs(version: int) -> list[Action]:
    """Epoch 0 ended at 3, epoch 1 is at the end of the log, later ones are unknown."""
    return [
        *_two_epochs(),
        *(leader_epochs(version, {"t": {0: epoch}}, to=broker(0)) for epoch in (0, 1, 2, 100, -1, -2)),
    ]


@sequence(*every(OFFSET_FOR_LEADER_EPOCH), t=topic(REPLICAS))
def epoch_without_records(version: int) -> list[Action]:
    """Nothing was written yet under the new leader: both epochs end at 3."""
    return [
        written(3, "a", "b", "c"),
        Departure(),
        at_high_watermark(3),
        *(leader_epochs(version, {"t": {0: epoch}}, to=broker(0)) for epoch in (0, 1, 2)),
    ]


@sequence(*every(OFFSET_FOR_LEADER_EPOCH), t=topic(REPLICAS))
def log_that_never_had_records(version: int) -> list[Action]:
    """An election over an empty log."""
    return [
        Departure(),
        at_high_watermark(0),
        *(leader_epochs(version, {"t": {0: epoch}}, to=broker(0)) for epoch in (0, 1, 2)),
    ]


@sequence(*every(OFFSET_FOR_LEADER_EPOCH), t=topic(REPLICAS))
def current_epoch_is_checked(version: int) -> list[Action]:
    """Who still believes in epoch 0 is fenced, who believes in epoch 2 knows more than this broker."""
    rows = [{"leader_epoch": 0, "current_leader_epoch": epoch} for epoch in (0, 1, 2, -1)]
    return [*_two_epochs(), *(leader_epochs(version, {"t": {0: row}}, to=broker(0)) for row in rows)]


@sequence(4, t=topic(REPLICAS))
def followers_check_the_epoch_first(version: int) -> list[Action]:
    """A follower fences old epochs, too, before it says that it does not lead."""
    rows = [{"leader_epoch": 0, "current_leader_epoch": epoch} for epoch in (0, 1, 2, -1)]
    return [*_two_epochs(), *(leader_epochs(version, {"t": {0: row}}, to=broker(1)) for row in rows)]


@sequence(4, t=topic(REPLICAS))
def deleted_epoch(version: int) -> list[Action]:
    """All records of epoch 0 are deleted: it ends where epoch 1 begins, or where the log does."""
    return [
        *_two_epochs(),
        delete_records(2, {"t": {0: 4}}, to=broker(0)),
        *(leader_epochs(version, {"t": {0: epoch}}, to=broker(0)) for epoch in (0, 1)),
    ]


@sequence(*every(LIST_OFFSETS), t=topic(REPLICAS))
def offsets_carry_their_epoch(version: int) -> list[Action]:
    """Earliest is of epoch 0, latest of the epoch that is going on."""
    return [
        *_two_epochs(),
        *(list_offsets(version, {"t": {0: timestamp}}, to=broker(0)) for timestamp in (-2, -1, 1_700_000_000_000)),
    ]


@sequence(4, 5, 9, t=topic(REPLICAS))
def offsets_for_an_old_epoch(version: int) -> list[Action]:
    """ListOffsets is fenced like any question to a leader."""
    rows = [{"timestamp": -1, "current_leader_epoch": epoch} for epoch in (0, 1, 2, -1)]
    return [*_two_epochs(), *(list_offsets(version, {"t": {0: row}}, to=broker(0)) for row in rows)]


@sequence(*[version for version in every(FETCH) if version >= 9], t=topic(REPLICAS))
def fetches_of_an_old_epoch(version: int) -> list[Action]:
    """A consumer that missed the election is fenced, one that is ahead of the broker is asked to come again."""
    rows = [{"fetch_offset": 0, "current_leader_epoch": epoch} for epoch in (0, 2, 1)]
    return [*_two_epochs(), *(fetch(version, {"t": {0: row}}, to=broker(0)) for row in rows)]


@sequence(4, 8, 11, 12, 15, 17, t=topic(REPLICAS))
def records_of_both_epochs(version: int) -> list[Action]:
    """Batches say in which epoch they were written."""
    return [*_two_epochs(), fetch(version, {"t": {0: 0}}, to=broker(0)), fetch(version, {"t": {0: 3}}, to=broker(0))]


@sequence(12, 13, 17, t=topic(REPLICAS))
def diverging_epochs(version: int) -> list[Action]:
    """The answer to a reader whose last record is of another history says where it may part (KIP-595)."""
    cases = ((3, 0), (4, 0), (5, 0), (5, 1), (3, 1), (2, 1), (6, 1), (5, 2), (0, 0), (3, -1))
    rows = [{"fetch_offset": offset, "last_fetched_epoch": epoch, "current_leader_epoch": 1} for offset, epoch in cases]
    return [*_two_epochs(), *(fetch(version, {"t": {0: row}}, to=broker(0)) for row in rows)]


@sequence(11, 12, 17, t=topic(REPLICAS))
def followers_fence_readers(version: int) -> list[Action]:
    """A follower serves consumers of its own epoch only."""
    rows = [{"fetch_offset": 0, "current_leader_epoch": epoch} for epoch in (0, 2, 1, -1)]
    settled = fetch(11, {"t": {0: 0}}, to=broker(1), quiet=True, settle={"responses.0.partitions.0.high_watermark": 5})
    return [*_two_epochs(), settled, *(fetch(version, {"t": {0: row}}, to=broker(1)) for row in rows)]


@sequence(7, 12, 17, t=topic(REPLICAS))
def session_over_an_election(version: int) -> list[Action]:
    """A session that begins with an old epoch gets the error, and the records once it has learnt."""
    if version < 9:
        rows = [{"fetch_offset": 0}, {"fetch_offset": 5}]
    else:
        rows = [{"fetch_offset": 0, "current_leader_epoch": epoch} for epoch in (0, 1)]
    session = Saved("session")
    return [
        *_two_epochs(),
        fetch(
            version, {"t": {0: rows[0]}}, session_id=0, session_epoch=0, save={"session": "session_id"}, to=broker(0)
        ),
        fetch(version, {"t": {0: rows[1]}}, session_id=session, session_epoch=1, to=broker(0)),
        fetch(version, {"t": {0: {**rows[1], "fetch_offset": 5}}}, session_id=session, session_epoch=2, to=broker(0)),
        fetch(version, {}, session_id=session, session_epoch=3, to=broker(0)),
    ]
