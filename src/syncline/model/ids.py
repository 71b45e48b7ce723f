"""Types for the numbers that must not mix.

Offsets count records; a leader epoch numbers a term of leadership; a broker epoch
numbers a registration of a broker process. All of them use -1 for "none", as the
Kafka protocol does. Only codecs use a bare `int`.
"""

import base64
import re
from typing import Final, NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)

NONE: Final = -1
BROKER_ID_MAX: Final = 2**31 - 1

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
JOURNAL_TOPIC: Final = "__syncline_journal"
# Clients may neither produce to nor delete from these: the brokers own them.
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: UUID) -> str:
    """Return the 22 characters that Kafka writes for an id of a topic or a cluster: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


# What Java's Integer.parseInt takes: no spaces, no underscores.
_INTEGER: Final = re.compile(r"[+-]?\d+")


def named_broker(name: str) -> BrokerId | None:
    """Return which broker a resource's name means, as "1", "+1" and "01" mean 1; None if it is not an int32."""
    if _INTEGER.fullmatch(name) is None:
        return None
    try:
        number = int(name)
    except ValueError:
        # More digits than Python reads.
        return None
    return BrokerId(number) if -BROKER_ID_MAX - 1 <= number <= BROKER_ID_MAX else None
