"""Records that a follower refuses: what it tells its leader, and when.

One hard idea: who is to blame? Records may be damaged on the way, so the follower first fetches them again. If the same
place is refused twice, it tells the leader (DOUBT, private key 20005, without an answer), and the leader checks its own
log: a follower's word alone takes no leadership away. As long as nothing changes, the follower repeats this ever more
rarely.

    request   follower i32 | topic id, 16 bytes | partition i32 | leader epoch i32 | offset i64

Numbers are big endian, as in Kafka's own messages. Offsets count records; the doubtful batches begin at `offset`.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.episodes import Episodes
from syncline.records.buffers import Buffer
from syncline.wire.errors import DecodeError

log = logging.getLogger("syncline.node")

_DOUBT: Final = struct.Struct(">i16siiq")
# The first refusal may be due to the network; each further report takes twice as many refusals.
REPORT_FIRST: Final = 2


class Doubt(NamedTuple):
    """One place in a leader's log that a follower cannot copy."""

    follower: int
    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int

    def encode(self) -> bytes:
        """Return the body of a DOUBT request."""
        return _DOUBT.pack(self.follower, self.topic_id.bytes, self.partition, self.leader_epoch, self.offset)

    @classmethod
    def decode(cls, body: Buffer, position: int) -> "Doubt":
        """Return the request whose body begins at `position`; raises `DecodeError`."""
        if len(body) - position != _DOUBT.size:
            raise DecodeError(f"a doubt has {_DOUBT.size} bytes, not {len(body) - position}")
        follower, topic_id, partition, leader_epoch, offset = _DOUBT.unpack_from(body, position)
        return cls(follower, UUID(bytes=topic_id), partition, leader_epoch, offset)


@dataclass(slots=True)
class RefusedPlace:
    """How often this follower has refused the records at one place, in a row."""

    doubt: Doubt
    since_ms: int
    times: int = 0
    report_at: int = REPORT_FIRST


class RefusedRecords:
    """What one leader sent, and this follower could not store because it was damaged."""

    def __init__(self, leader_id: int, clock: Clock, episodes: Episodes, send: Callable[[Doubt], object]) -> None:
        self._leader_id = leader_id
        self._clock = clock
        self._episodes = episodes
        self._send = send
        # By partition; empty unless something is wrong, which each append looks at.
        self.places: dict[TopicPartition, RefusedPlace] = {}

    def refused(self, key: TopicPartition, doubt: Doubt, error: Exception) -> None:
        """Count a refusal; tell the leader, the log and the journal when it is the second one at the same place."""
        known = self.places.get(key)
        if known is None or known.doubt != doubt:
            self.forget(key)
            known = self.places[key] = RefusedPlace(doubt, self._clock.mono_ms())
        known.times = times = known.times + 1
        if times == REPORT_FIRST:
            log.warning(
                "%s: broker %s twice sent records that this follower refuses, and is now asked to check its log: %s",
                key,
                self._leader_id,
                error,
            )
        if times >= REPORT_FIRST:
            self._episodes.hold(
                ("records-refused", key),
                "records-refused",
                self._leader_id,
                known.since_ms,
                lambda: {"offset": doubt.offset, "refused_count": times, "error": str(error)},
                key,
            )
        if times == known.report_at:
            self._send(doubt)
            known.report_at *= 2

    def forget(self, key: TopicPartition) -> None:
        """End the doubts about a partition: its records were stored, or another broker leads."""
        if self.places.pop(key, None) is not None:
            self._episodes.end(("records-refused", key))
