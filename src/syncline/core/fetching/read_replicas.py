"""Read replicas: to which replica the leader sends a consumer, so that it reads within its rack.

One hard idea: the leader may send a consumer only to a replica that can serve it
now. A follower's last fetch shows that: the requested offset lies between the
follower's log start and its log end, both as last reported. A follower outside
the ISR may fall behind for ever, so it is not a candidate. Without a candidate in
the consumer's rack, the leader serves the consumer itself.

Units: offsets are exclusive ends; times in ms of the node's monotonic clock.
Source: KIP-392 as Kafka's RackAwareReplicaSelector applies it, KAFKA-14372; scenario H07.
"""

from collections.abc import Mapping
from typing import Final

from syncline.core.replication.follower_state import FollowerState
from syncline.core.replication.leader import LeaderPartition
from syncline.model.ids import BrokerId, Offset

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_replica(
    leader: LeaderPartition, rack: str, racks: Mapping[BrokerId, str | None], fetch_offset: Offset
) -> BrokerId | None:
    """Return the follower that a consumer in `rack` should read from, None when the leader serves it.

    `racks` has the live brokers. The candidate with the most records wins, then the one that was caught up
    last, then the highest id.
    """
    if racks.get(leader.broker_id) == rack:
        return None
    in_sync = leader.isr
    candidates = [
        (follower.log_end, _caught_up_ms(follower), follower.broker_id)
        for follower in leader.followers
        if follower.broker_id in in_sync
        and racks.get(follower.broker_id) == rack
        and follower.log_start <= fetch_offset <= follower.log_end
    ]
    return max(candidates)[2] if candidates else None


def _caught_up_ms(follower: FollowerState) -> int:
    """Return when the follower last provably had everything; its fetch session may have a later time."""
    stamp = follower.stamp
    return follower.last_caught_up_ms if stamp is None else max(follower.last_caught_up_ms, stamp.last_fetch_ms)
