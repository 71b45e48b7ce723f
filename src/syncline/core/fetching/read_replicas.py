"""Read replicas: which replica a consumer is sent to, so that it reads near to where it stands.

One hard idea: a consumer may be sent only to a replica that can serve it now. The
leader knows that of a follower by its last fetch: the requested offset lies
between the follower's log start and its log end, both as last reported. A follower
outside the ISR may fall behind for ever, so it is no candidate either. Where no
candidate is in the consumer's rack, the leader serves it itself.

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

    `racks` has the brokers that are alive. Among equals the one with the most records wins, then the one
    that was caught up last, then the highest id.
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
    """Return when the follower was last known to have had everything; a fetch session may know of a later time."""
    stamp = follower.stamp
    return follower.last_caught_up_ms if stamp is None else max(follower.last_caught_up_ms, stamp.last_fetch_ms)
