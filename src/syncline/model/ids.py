"""Types for the numbers that must not mix.

Offsets count records; a leader epoch numbers a term of leadership; a broker epoch
numbers a registration of a broker process. All of them use -1 for "none", as the
Kafka protocol does. Only codecs use a bare `int`.
"""

from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)

NONE: Final = -1

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
