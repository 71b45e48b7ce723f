"""Rows of partitions, sealed into batches with running sequences, and sent until they are acknowledged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.producing import Producer
from syncline.pipeline.encoding.batches import ProducerId, cuts, following, seal
from syncline.pipeline.encoding.rows import Rows


@dataclass(slots=True)
class Sender:
    """One producer's records; `sequences` are those of each partition's next record."""

    producer: Producer
    identity: ProducerId
    codec: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def send(self, parts: Mapping[TopicPartition, Rows]) -> None:
        """Write all rows; a partition's next batch leaves when its last one is acknowledged."""
        waiting = {place: list(cuts(rows, self.producer.request_bytes_max)) for place, rows in parts.items()}
        while waiting:
            batches = {}
            for place, bounds in waiting.items():
                start, end = bounds.pop(0)
                sequence = self.sequences.get(place, 0)
                batches[place] = seal(
                    parts[place].between(start, end), self.identity, base_sequence=sequence, codec=self.codec
                )
                self.sequences[place] = following(sequence, end - start)
            self.producer.send(batches)
            waiting = {place: bounds for place, bounds in waiting.items() if bounds}
