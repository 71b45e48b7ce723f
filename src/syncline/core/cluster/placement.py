"""Which brokers get the replicas of new partitions.

Leaders rotate over the active brokers from a random start, so that many small topics spread as evenly as a large one.
Each round shifts the followers by one more place, so that two brokers do not share all their partitions. Brokers of
different racks alternate in the order, and a broker in a rack without a replica of the partition precedes one in a rack
with a replica. Fenced brokers are used only when there are too few others, and never first.

Invariants: every partition has as many different replicas as requested, an active broker first.
Source: Kafka's StripedReplicaPlacer (its aims) and AdminUtils (the shift).
"""

from collections.abc import Iterable, Mapping

from syncline.core.cluster.decision import Below
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import BrokerId
from syncline.model.metadata import BrokerRecord

Replicas = tuple[BrokerId, ...]


def place(
    brokers: Mapping[BrokerId, BrokerRecord],
    *,
    partitions: int,
    replication_factor: int,
    below: Below,
    first_partition: int = 0,
) -> tuple[Replicas, ...]:
    """Return the replicas of each new partition, the preferred leader first.

    Raises `RequestError` when there are too few brokers.
    """
    prefix = f"Unable to replicate the partition {replication_factor} time(s):"
    active = _alternating_racks(record for record in brokers.values() if record.active)
    spare = _alternating_racks(record for record in brokers.values() if not record.active)
    if replication_factor > len(brokers):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{prefix} The target replication factor of {replication_factor} cannot be reached because only"
            f" {len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    if not active:
        raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, f"{prefix} All brokers are currently fenced.")
    racks = {record.broker_id: record.rack for record in brokers.values() if record.rack is not None}
    start = below(len(active))
    shift = below(len(active))
    placed = []
    # Leader, shift and spare brokers recur, and with them the replicas: partitions share them.
    shared: dict[tuple[int, int, int], Replicas] = {}
    size, shifts, turns = len(active), max(1, len(active) - 1), max(1, len(spare))
    missing = max(0, replication_factor - size)
    for index in range(first_partition, first_partition + partitions):
        if index and index % size == 0:
            shift += 1
        turn = (start + index) % turns if missing else 0
        place = ((start + index) % size, shift % shifts, turn)
        replicas = shared.get(place)
        if replicas is None:
            replicas = _walk(active, racks, place[0], shift)[:replication_factor]
            replicas += tuple(spare[(turn + each) % turns] for each in range(missing))
            shared[place] = replicas
        placed.append(replicas)
    for replicas in shared.values():
        assert len(set(replicas)) == replication_factor, f"{replicas} are not {replication_factor} brokers"
        assert replicas[0] in active, f"a fenced broker is preferred: {replicas} of {active}"
    return tuple(placed)


def _walk(ring: list[BrokerId], racks: Mapping[BrokerId, str], leader_index: int, shift: int) -> Replicas:
    """Return the whole ring in the order of one partition: the leader, then from `shift` places after it."""
    size = len(ring)
    order = [ring[leader_index]]
    order.extend(ring[(leader_index + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1))
    if len(set(racks.values())) > 1:
        # The racks take turns; the sort is stable, so each rack keeps the order of the ring.
        turns: dict[str, int] = {}
        turn_of: dict[BrokerId, int] = {}
        for broker in order:
            rack = racks.get(broker, "")
            turn_of[broker] = turns[rack] = turns.get(rack, -1) + 1
        order.sort(key=turn_of.__getitem__)
    return tuple(order)


def _alternating_racks(records: Iterable[BrokerRecord]) -> list[BrokerId]:
    """Return the brokers in the order of their ids, one from each rack in turn."""
    racks: dict[str, list[BrokerId]] = {}
    for record in sorted(records):
        racks.setdefault(record.rack or "", []).append(record.broker_id)
    columns = [racks[rack] for rack in sorted(racks)]
    longest = max((len(column) for column in columns), default=0)
    alternating = [column[row] for row in range(longest) for column in columns if row < len(column)]
    assert len(alternating) == sum(map(len, columns)), f"{alternating} leaves out some of {columns}"
    return alternating
