"""How far moves are, and what is left to do, from one or two looks at a cluster.

What a new replica lacks is the difference of two sizes: its leader's log and its own. Copies are byte for byte, so
sizes can be compared. How fast a partition is written to is how fast its leader's log grew between two looks.
Units: bytes, bytes per second.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from syncline.model.ids import TopicPartition
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.doctor import BrokerView, Copy, PartView
from syncline.reassign.formulas import Load, Moving, Part, Role, loads
from syncline.reassign.log_dir_states import Place
from syncline.reassign.plan_file import Target


class Row(NamedTuple):
    """One new replica: what it has of what it needs, and whether it is in sync.

    What it needs is unknown, and `total_bytes` too small, while no replica that has everything says its size.
    """

    key: TopicPartition
    destination: int
    leader: int
    done_bytes: int
    total_bytes: int
    is_in_sync: bool
    is_total_known: bool = True

    @property
    def remaining_bytes(self) -> int:
        """Return what it lacks; 0 once it is in sync."""
        return 0 if self.is_in_sync else max(self.total_bytes - self.done_bytes, 0)


def write_rates(before: ClusterState, after: ClusterState) -> dict[TopicPartition, float]:
    """Return how fast each partition grew at its leader; 0 where it did not, or where the leader was another one."""
    span_s = (after.at_ms - before.at_ms) / 1000
    rates = {}
    for key, partition in after.partitions.items():
        place = Place(key, partition.leader)
        known = place in before.sizes and place in after.sizes and span_s > 0
        rates[key] = max((after.sizes[place] - before.sizes[place]) / span_s, 0.0) if known else 0.0
    return rates


def planned(state: ClusterState, targets: Iterable[Target], rates: Mapping[TopicPartition, float]) -> list[Moving]:
    """Return what it takes to move partitions to their targets, from where they are now.

    Replicas that a running move adds are no replicas yet, but what they have need not be copied again.
    """
    found = []
    for target in targets:
        partition = state.partitions[target.key]
        running = state.running.get(target.key)
        adding = running.adding if running is not None else ()
        present = set(partition.replicas) - set(adding)
        destinations = tuple(broker for broker in target.replicas if broker not in present)
        had_bytes = [state.sizes.get(Place(target.key, each), 0) if each in adding else 0 for each in destinations]
        found.append(
            Moving(
                target.key,
                state.size_of(target.key),
                rates.get(target.key, 0.0),
                partition.leader,
                destinations,
                sum(broker != partition.leader for broker in partition.isr),
                tuple(had_bytes) if any(had_bytes) else (),
            )
        )
    return found


def rows(state: ClusterState, keys: Iterable[TopicPartition]) -> list[Row]:
    """Return the new replicas of partitions that move, sorted."""
    found = []
    for key in sorted(keys):
        running, partition = state.running.get(key), state.partitions.get(key)
        if running is None or partition is None:
            continue
        is_total_known = any(Place(key, broker) in state.sizes for broker in (partition.leader, *partition.isr))
        found += [
            Row(
                key,
                broker,
                partition.leader,
                state.sizes.get(Place(key, broker), 0),
                state.size_of(key),
                broker in partition.isr,
                is_total_known,
            )
            for broker in running.adding
        ]
    return found


def remaining(
    state: ClusterState, moving: Sequence[Row], rates: Mapping[TopicPartition, float], *, counts_in_sync: bool
) -> dict[Part, Load]:
    """Return what each broker still has to send and receive, and to keep up with meanwhile."""
    grouped: dict[TopicPartition, list[Row]] = {}
    for row in moving:
        grouped.setdefault(row.key, []).append(row)
    lacking: list[Moving] = []
    for key, copies in grouped.items():
        in_sync = sum(broker != state.partitions[key].leader for broker in state.partitions[key].isr)
        for row in copies:
            if row.is_in_sync:
                continue
            rate = rates.get(key, 0.0)
            lacking.append(Moving(key, row.remaining_bytes, rate, row.leader, (row.destination,), in_sync))
            # Followers in sync are counted once per partition, however many replicas are new.
            in_sync = 0
    return loads(lacking, counts_in_sync=counts_in_sync)


def copies_of(moving: Iterable[Row]) -> list[Copy]:
    """Return the rows as the doctor needs them: those that are not in sync."""
    return [Copy(row.key, row.leader, row.destination, row.remaining_bytes) for row in moving if not row.is_in_sync]


def broker_views(state: ClusterState, brokers: Iterable[int]) -> dict[int, BrokerView]:
    """Return what is known of these brokers: those that are not in the state are down."""
    return {
        broker: BrokerView(
            is_alive=True,
            usable_bytes=state.brokers[broker].usable_bytes,
            is_silent=state.brokers[broker].is_silent,
        )
        if broker in state.brokers
        else BrokerView(is_alive=False)
        for broker in brokers
    }


def part_views(
    before: Mapping[Part, Load] | None,
    after: Mapping[Part, Load],
    span_s: float,
    quotas: Mapping[Part, float],
    in_sync: Mapping[Part, float],
    nothing_moved_s: Mapping[Part, float],
) -> dict[Part, PartView]:
    """Return what each broker does in each role, from what remained at two looks, `span_s` apart.

    `nothing_moved_s` has those that say for how long they have moved nothing.
    """
    views = {}
    for part, load in after.items():
        measured = None
        is_progressing = True
        if before is not None and part in before and span_s > 0:
            net = (before[part].copy_bytes - load.copy_bytes) / span_s
            measured = max(net + load.keep_up_bytes_per_s, 0.0)
            is_progressing = net > 0
        views[part] = PartView(
            quotas.get(part, float("inf")),
            load.keep_up_bytes_per_s,
            in_sync.get(part, 0.0),
            measured,
            load.copy_bytes,
            is_progressing,
            nothing_moved_s.get(part),
        )
    return views


def idle_times(state: ClusterState) -> dict[Part, float]:
    """Return for how long brokers have received and sent nothing for moves, in s; without those that do not say."""
    found = {}
    for broker, each in state.brokers.items():
        for role, idle_s in ((Role.RECEIVING, each.nothing_received_s), (Role.SENDING, each.nothing_sent_s)):
            if idle_s is not None:
                found[Part(broker, role)] = idle_s
    return found


def in_sync_rates(
    state: ClusterState, moving: Iterable[Row], rates: Mapping[TopicPartition, float]
) -> dict[Part, float]:
    """Return what leaders of partitions that move send to followers in sync, which KIP-73 counts, too."""
    found: dict[Part, float] = {}
    for key in dict.fromkeys(row.key for row in moving):
        partition = state.partitions[key]
        followers = sum(broker != partition.leader for broker in partition.isr)
        part = Part(partition.leader, Role.SENDING)
        found[part] = found.get(part, 0.0) + followers * rates.get(key, 0.0)
    return found


def without_room(state: ClusterState, moving: Iterable[Moving]) -> list[str]:
    """Return a sentence for each destination whose disk has less room than it would get."""
    needed: dict[int, int] = {}
    for each in moving:
        for broker, size_bytes in each.lacking_bytes.items():
            needed[broker] = needed.get(broker, 0) + size_bytes
    sentences = []
    for broker, size_bytes in sorted(needed.items()):
        known = state.brokers.get(broker)
        if known is not None and 0 <= known.usable_bytes < size_bytes:
            sentences.append(f"broker {broker} has {known.usable_bytes:,} B of room but would receive {size_bytes:,} B")
    return sentences


def changed_factors(state: ClusterState, targets: Iterable[Target]) -> list[str]:
    """Return a phrase for each target with more or fewer replicas than before its move."""
    phrases = []
    for target in targets:
        running = state.running.get(target.key)
        partition = state.partitions[target.key]
        count = len(partition.replicas) - (len(running.adding) if running is not None else 0)
        if len(target.replicas) != count:
            phrases.append(f"{target.key} from {count} to {len(target.replicas)}")
    return phrases
