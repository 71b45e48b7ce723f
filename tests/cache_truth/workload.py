"""What is written and read: four logs, each with a reader at its tail; others catch up with three of them.

One process does one thing after the other, so each run reads the same at the same distance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from syncline.lab.client import Client
from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.settings import ClientSettings
from syncline.records.batch import BatchHeader

TOPICS: Final = ("a", "b", "c", "d")
# One step writes this to one of the topics in turn.
STEP_BYTES: Final = 1 << 20
STEPS: Final = 320
_BATCHES_PER_STEP: Final = 4
# Each batch is one record.
_VALUE: Final = "x" * (STEP_BYTES // _BATCHES_PER_STEP)
# A topic, and the step at which somebody begins to read it from its start, twice as fast as it is written.
LATE: Final = (("b", 60), ("c", 120), ("d", 160))
_LATE_EVERY: Final = 2


@dataclass
class Reader:
    """One client that reads one partition from its beginning."""

    client: Cluster
    place: TopicPartition
    offset: int = 0

    def read(self) -> int:
        """Read once, and return how many bytes came; nothing if there is nothing yet."""
        records = self.client.fetch(self.place, self.offset).records
        position = 0
        while position < len(records):
            header = BatchHeader.parse(records, position)
            if position + header.size_bytes > len(records):
                break
            position += header.size_bytes
            self.offset = header.next_offset
        return position


def play(host: str, port: int) -> None:
    """Write and read all of it."""
    writer = Client(host, port)
    for topic in TOPICS:
        # Only pages that were written out can leave memory; the system itself waits with that for half a minute.
        writer.create_topic(topic, [1], {"flush.messages": str(_BATCHES_PER_STEP)})
    tail = {topic: reader(host, port, f"tail-{topic}", topic) for topic in TOPICS}
    late = {topic: reader(host, port, f"late-{topic}", topic) for topic, _ in LATE}
    try:
        for step in range(STEPS):
            topic = TOPICS[step % len(TOPICS)]
            for _ in range(_BATCHES_PER_STEP):
                writer.produce(topic, [_VALUE], acks=1)
            tail[topic].read()
            for topic in _late_at(step):
                if late[topic].offset < tail[topic].offset:
                    late[topic].read()
    finally:
        writer.close()
        for each in (*tail.values(), *late.values()):
            each.client.close()


def _late_at(step: int) -> Iterator[str]:
    for topic, begins_at in LATE:
        if step >= begins_at and step % _LATE_EVERY == 0:
            yield topic


def reader(host: str, port: int, client_id: str, topic: str) -> Reader:
    """Return a reader whose fetches return what one step has written."""
    settings = ClientSettings(((host, port),), client_id=client_id, fetch_bytes_max=STEP_BYTES + 4_096)
    return Reader(Cluster(settings), TopicPartition(topic, 0))
