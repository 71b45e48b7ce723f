"""Turning the values of a step into what is sent, and into what is written into the recording.

Sent: names get the prefix of their sequence, saved values are looked up, batches are encoded.
Written: the same values by their symbols, so that a recording is equal from run to run.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conformance.batches import Batch, Now, encode, resolve_time
from tests.conformance.group_requests import consumer_subscription
from tests.conformance.steps import Batches, BrokerNumber, Joined, Name, Saved, Subscription, TopicId


@dataclass
class Scope:
    """What the values of one running sequence stand for."""

    prefix: str
    broker_ids: list[int]
    topic_id_of: Callable[[str], str]
    saved: dict[str, Any] = field(default_factory=dict)

    def resolve(self, value: Any) -> Any:
        """Return `value` with everything symbolic replaced, in depth."""
        match value:
            case Name(short):
                return self.prefix + short
            case TopicId(topic):
                return self.topic_id_of(self.prefix + topic)
            case Saved(name, add):
                return self.saved[name] + add if add else self.saved[name]
            case BrokerNumber(rank, as_text):
                return str(self.broker_ids[rank]) if as_text else self.broker_ids[rank]
            case Subscription(topics):
                return consumer_subscription(*(self.prefix + topic for topic in topics))
            case Joined(parts):
                return "".join(str(self.resolve(part)) for part in parts)
            case Batches(batches):
                return b"".join(self.resolve(each) for each in batches)
            case Batch():
                return encode(self._with_producer(resolve_time(value)))
            case Now(offset_ms):
                return int(time.time() * 1000) + offset_ms
            case Mapping():
                return {key: self.resolve(each) for key, each in value.items()}
            case list() | tuple():
                return [self.resolve(each) for each in value]
        return value

    def _with_producer(self, batch: Batch) -> Batch:
        return replace(
            batch,
            producer_id=self.resolve(batch.producer_id),
            producer_epoch=self.resolve(batch.producer_epoch),
        )


def described(value: Any) -> Any:
    """Return `value` as it is written into a recording."""
    match value:
        case Name(short):
            return f"${short}"
        case TopicId(topic):
            return f"$id of {topic}"
        case Saved(name, add):
            return f"$saved {name}{add:+}" if add else f"$saved {name}"
        case BrokerNumber(rank):
            return f"$broker {rank}"
        case Subscription(topics):
            return f"$subscription {' '.join(topics)}"
        case Joined(parts):
            return "".join(str(described(part)) for part in parts)
        case Batches(batches):
            return {"batches": [described(each) for each in batches]}
        case Batch():
            return described(value.described())
        case Now(offset_ms):
            return f"$now{offset_ms:+}"
        case bytes():
            return f"$bytes {value.hex()}" if len(value) <= 64 else f"$bytes {value[:8].hex()}... {len(value)}"
        case Mapping():
            return {key: described(each) for key, each in value.items()}
        case list() | tuple():
            return [described(each) for each in value]
        case str() if len(value) > 80 and len(set(value)) == 1:
            return f"{value[0]}*{len(value)}"
    return value
