"""OffsetForLeaderEpoch: what an epoch ended with. Epochs above 0 need elections, which this suite has none of."""

from tests.conformance.apis import OFFSET_FOR_LEADER_EPOCH, every
from tests.conformance.batches import batch
from tests.conformance.requests import delete_records, leader_epochs, produce
from tests.conformance.steps import Action, broker, exact, follower, leader, sequence, topic

VERSIONS = every(OFFSET_FOR_LEADER_EPOCH)


def _filled() -> Action:
    return produce(7, {"t": {0: batch("a", "b", "c")}}, quiet=True)


@sequence(*VERSIONS, t=topic((0,)))
def one_epoch(version: int) -> list[Action]:
    """The current epoch ends at the end of the log; unknown ones have no end."""
    return [_filled(), *(leader_epochs(version, {"t": {0: epoch}}) for epoch in (0, 1, 100, -1, -2))]


@sequence(*VERSIONS, t=topic((0,)))
def empty_log(version: int) -> list[Action]:
    """On an empty log the first epoch ends at 0."""
    return [*(leader_epochs(version, {"t": {0: epoch}}) for epoch in (0, 1, -1))]


@sequence(4, t=topic((0,)))
def after_delete_records(version: int) -> list[Action]:
    """A deletion keeps the epoch."""
    return [_filled(), delete_records(2, {"t": {0: -1}}, quiet=True), leader_epochs(version, {"t": {0: 0}})]


@sequence(*VERSIONS, t=topic((0, 1)))
def wrong_places(version: int) -> list[Action]:
    """Unknown 3; followers and brokers without a replica 6."""
    return [
        leader_epochs(version, {exact("nope"): {0: 0}}, to=broker()),
        leader_epochs(version, {"t": {9: 0}}, to=leader("t")),
        leader_epochs(version, {"t": {0: 0}}, to=follower("t")),
        leader_epochs(version, {"t": {0: 0}}, to=broker(2)),
    ]


@sequence(4, t=topic((0, 1)))
def replica_ids(version: int) -> list[Action]:
    """No replica id changes the answer, not even a debugger's."""
    return [
        _filled(),
        *(
            leader_epochs(version, {"t": {0: 0}}, replica_id=each, to=to)
            for each in (-1, -2, 7)
            for to in (leader("t"), follower("t"))
        ),
    ]


@sequence(*VERSIONS, t=topic((0,)))
def current_epochs(version: int) -> list[Action]:
    """The client's own idea of the epoch is checked, at every broker that has the partition."""
    rows = [{"leader_epoch": 0, "current_leader_epoch": epoch} for epoch in (0, 1, -1, -2)]
    return [_filled(), *(leader_epochs(version, {"t": {0: row}}) for row in rows)]


@sequence(4, t=topic((0,)))
def nothing_and_duplicates(version: int) -> list[Action]:
    """No topics; and a partition twice."""
    return [_filled(), leader_epochs(version, {}, to=broker()), leader_epochs(version, {"t": [(0, 0), (0, 5)]})]
