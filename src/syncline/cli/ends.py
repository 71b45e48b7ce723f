"""Where partitions begin and end, as their leaders report it: a silent leader hides only its own partitions.

The client library answers a request about several leaders when all of them have answered, or the time is over, so each
leader gets a request of its own. If a leader does not answer in time, its partitions get the offset -1001, without an
error.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from syncline.cli.target import CONNECT_STEP_S, SILENT_S, guarded, no_answer, sentence_of
from syncline.local.layout import LocalClusterError
from syncline.model.errors import ErrorCode

# Topic and partition.
Place: TypeAlias = tuple[str, int]
# A look-up by time has the offset -1 if there is no such record. A lower number means that the leader did not answer.
_NO_RECORD = -1


def leaders_of(topic: str, partitions: Mapping[int, Any]) -> dict[Place, int]:
    """Return the leader of each partition of a topic, from its metadata."""
    return {(topic, index): each.leader for index, each in sorted(partitions.items())}


def offsets(admin: Any, leaders: Mapping[Place, int], spec: Any, *, patience_s: float = SILENT_S) -> dict[Place, int]:
    """Return each partition's offset for `spec`; `LocalClusterError` if one is not told."""
    troubles: dict[Place, str] = {}
    found = known_offsets(admin, leaders, spec, troubles, patience_s=patience_s)
    for (topic, partition), why in troubles.items():
        raise LocalClusterError(f"cannot read offsets of {topic}-{partition}: {why}")
    return found


def known_offsets(
    admin: Any,
    leaders: Mapping[Place, int],
    spec: Any,
    troubles: dict[Place, str],
    *,
    patience_s: float = SILENT_S,
    **more: Any,
) -> dict[Place, int]:
    """Return each partition's offset for `spec` where its leader tells it; `troubles` gets the reasons of the others.

    Partitions that have a reason already are not asked for.
    """
    from confluent_kafka import KafkaException, TopicPartition

    led: dict[int, list[Place]] = {}
    for place, leader in leaders.items():
        if leader < 0:
            troubles.setdefault(place, ErrorCode.LEADER_NOT_AVAILABLE.name)
        elif place not in troubles:
            led.setdefault(leader, []).append(place)
    # All are under way before the first is waited for.
    asked: dict[Any, Any] = {}
    for places in led.values():
        wanted = {TopicPartition(*place): spec for place in places}
        asked |= guarded("cannot read offsets", partial(admin.list_offsets, wanted, request_timeout=patience_s, **more))
    found = {}
    for part, future in asked.items():
        place = part.topic, part.partition
        try:
            # The library ends the request in time; it may only be late to say so.
            offset = future.result(patience_s + CONNECT_STEP_S).offset
        except KafkaException as error:
            troubles[place] = _reason(error.args[0], leaders[place], patience_s)
        except TimeoutError:
            troubles[place] = no_answer(leaders[place], patience_s)
        else:
            if offset < _NO_RECORD:
                troubles[place] = no_answer(leaders[place], patience_s)
            else:
                found[place] = offset
    return found


def _reason(error: Any, leader: int, patience_s: float) -> str:
    from confluent_kafka import KafkaError

    # Its public name.
    if error.code() == KafkaError._TIMED_OUT:  # noqa: SLF001
        return no_answer(leader, patience_s)
    return sentence_of(error)
