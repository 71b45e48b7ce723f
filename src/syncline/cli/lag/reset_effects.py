"""What a reset of a group's offsets would change: records, bytes and time that the group would read again, or skip.

Leaders know where both offsets lie, and when their records came. Kafka's API knows offsets, and the times that
producers have set in the records at both.

Signs: positive amounts are skipped, negative ones are read again. None is unknown.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from syncline.cli.ends import Place, offsets
from syncline.cli.lag.answers import UNKNOWN, number
from syncline.cli.lag.kafka_api import newest_times, times_at_commits
from syncline.cli.screen import print_table, say
from syncline.cli.target import SILENT_S, counted
from syncline.model.errors import ErrorCode

COLUMNS: Final = (*("TOPIC", "PARTITION", "COMMITTED", "NEW OFFSET", "EFFECT", "RECORDS", "BYTES", "SECONDS", "NOTE"),)
KAFKA_KNOWS: Final = (
    "BYTES are unknown here: Kafka's API does not report where an offset lies in a log. RECORDS counts "
    "offsets, of which there are at least as many as records; SECONDS are between the timestamps that "
    "producers set. Syncline's brokers know more: use --data."
)


class Effect(NamedTuple):
    """What a reset changes in one partition."""

    partition: int
    committed: int | None
    offset: int
    """The new one."""
    records: int | None = None
    size_bytes: int | None = None
    """Of whole batches: a reader in the middle of one gets all of it."""
    duration_ms: int | None = None
    """Between the appends of the records at both offsets; the end of a log counts as now."""
    lost: int = 0
    """Records that were deleted before the group had read them."""
    is_estimated: bool = False

    @property
    def direction(self) -> str | None:
        """What happens to the records in between."""
        if self.committed is None or self.records is None:
            return None
        if self.records:
            return "skips" if self.records > 0 else "reads again"
        return "stays" if self.offset == self.committed else "only moves"


class Known(NamedTuple):
    """The effects, and sentences about what is not known."""

    effects: list[Effect]
    unknown: list[str]


def by_brokers(
    brokers: Mapping[int, Any],
    leaders: Mapping[int, int],
    topic: str,
    committed: Mapping[int, int],
    targets: Mapping[int, int],
) -> Known:
    """Return the effects as the leaders of the partitions know them."""
    effects: list[Effect] = []
    unknown: list[str] = []
    silent: dict[int, str] = {}
    for partition, offset in targets.items():
        before = committed.get(partition)
        effect = Effect(partition, before, offset)
        if before is not None:
            told = _places(brokers, leaders[partition], silent, topic, partition, [before, offset])
            if isinstance(told, str):
                unknown.append(f"{topic}-{partition}: the effect is unknown ({told})")
            else:
                effect = _effect(effect, before, told)
        effects.append(effect)
    return Known(effects, unknown)


def _places(
    brokers: Mapping[int, Any], leader: int, silent: dict[int, str], topic: str, partition: int, asked: list[int]
) -> Mapping[str, Any] | str:
    """Return what a partition's leader knows of these offsets, or why that is not known."""
    from syncline.local.control import ControlError

    if leader not in brokers:
        return ErrorCode.LEADER_NOT_AVAILABLE.name
    if leader not in silent:
        try:
            told = brokers[leader].call(
                "lag.places", timeout_s=SILENT_S, topic=topic, partition=partition, offsets=asked
            )
        except ControlError as error:
            # It is not asked again: each question would wait as long.
            silent[leader] = str(error)
        else:
            return told if told["standing"] == "NONE" else str(told["standing"])
    return silent[leader]


def _effect(effect: Effect, before: int, told: Mapping[str, Any]) -> Effect:
    """Return an effect with what the leader knows of both offsets."""
    ends = told["ends"]
    old, new = (
        _Place(ends, place, offset) for place, offset in zip(told["places"], (before, effect.offset), strict=True)
    )
    records = new.offset - old.offset
    readable = _minus(new.readable, old.readable)
    times = _minus(new.append_ms, old.append_ms)
    return effect._replace(
        records=records if readable is None else readable,
        size_bytes=_minus(new.coordinate_bytes, old.coordinate_bytes),
        duration_ms=times,
        lost=max(0, ends["log_start"] - before),
        is_estimated=times is not None and (old.is_estimated or new.is_estimated),
    )


class _Place:
    """Where an offset lies, or would lie: at the end there is no record yet, and before the start none any more."""

    def __init__(self, ends: Mapping[str, Any], place: Mapping[str, Any] | None, offset: int) -> None:
        self.offset = min(max(offset, ends["log_start"]), ends["log_end"])
        self.is_estimated = False
        self.coordinate_bytes: int | None = None
        self.append_ms: int | None = None
        self.readable: int | None = None
        if place is not None:
            self.coordinate_bytes, self.append_ms = place["coordinate_bytes"], place["append_ms"]
            self.readable, self.is_estimated = place["readable_before"], place["is_estimated"]
        elif self.offset >= ends["log_end"]:
            self.coordinate_bytes, self.append_ms = ends["end_bytes"], ends["at_ms"]
            if ends["high_watermark"] == ends["log_end"]:
                self.readable = ends["readable_below_watermark"]


def by_kafka(
    admin: Any,
    servers: str,
    leaders: Mapping[Place, int],
    topic: str,
    committed: Mapping[int, int],
    targets: Mapping[int, int],
) -> Known:
    """Return the effects as far as Kafka's API knows them."""
    from confluent_kafka.admin import OffsetSpec

    led = {place: leader for place, leader in leaders.items() if place[1] in targets}
    starts = offsets(admin, led, OffsetSpec.earliest())
    ends = offsets(admin, led, OffsetSpec.latest())
    moved = {index: committed[index] for index, offset in targets.items() if committed.get(index, offset) != offset}
    old_times = _event_times(admin, servers, topic, moved, starts, ends)
    new_times = _event_times(admin, servers, topic, {index: targets[index] for index in moved}, starts, ends)
    effects = []
    for partition, offset in targets.items():
        effect = Effect(partition, committed.get(partition), offset)
        if partition in committed:
            start, end = starts[topic, partition], ends[topic, partition]
            before = min(max(committed[partition], start), end)
            effect = effect._replace(
                records=offset - before,
                duration_ms=0 if offset == before else _minus(new_times.get(partition), old_times.get(partition)),
                lost=max(0, start - committed[partition]),
            )
        effects.append(effect)
    return Known(effects, [KAFKA_KNOWS])


def _event_times(
    admin: Any, servers: str, topic: str, wanted: Mapping[int, int], starts: Mapping[Any, int], ends: Mapping[Any, int]
) -> dict[int, int]:
    """Return the time that a producer has set in the record at each offset, at the end that of the newest."""
    inside: list[dict[str, Any]] = []
    at_end: list[dict[str, Any]] = []
    for partition, offset in wanted.items():
        row = {"topic": topic, "partition": partition, "committed": offset, "log_start": starts[topic, partition]}
        (at_end if offset >= ends[topic, partition] else inside).append(row)
    found = {**newest_times(admin, at_end), **times_at_commits(servers, inside)}
    return {partition: time_ms for (_, partition), time_ms in found.items() if time_ms >= 0}


def _minus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def show(topic: str, known: Known, warning: str, *, json_fields: Mapping[str, Any] | None) -> None:
    """Print the effects as a table, what they add up to, and what is not known; or as JSON, beside these fields.

    The warning says what stands in the way of the reset, or is odd about it; it may be empty.
    """
    if json_fields is not None:
        effects = [{**effect._asdict(), "effect": effect.direction} for effect in known.effects]
        print(json.dumps({**json_fields, "effects": effects, "unknown": known.unknown, "warning": warning or None}))
        return
    print_table(list(COLUMNS), [_cells(topic, effect) for effect in known.effects])
    for direction in ("reads again", "skips"):
        concerned = [effect for effect in known.effects if effect.direction == direction]
        if concerned:
            records = sum(abs(effect.records or 0) for effect in concerned)
            sizes = [effect.size_bytes for effect in concerned]
            bytes_too = "" if None in sizes else f", {counted(sum(abs(each or 0) for each in sizes), 'byte')}"
            say(f"the group {direction} {counted(records, 'record')}{bytes_too}")
    say(*known.unknown)
    if warning:
        say(warning)
    say("nothing was changed" if warning else "nothing was changed; add --execute to do it")


def _cells(topic: str, effect: Effect) -> list[Any]:
    amounts = (effect.records, effect.size_bytes)
    notes = (
        (f"{number(effect.lost)} already lost", effect.lost),
        ("nothing committed", effect.committed is None),
        ("no records in between", effect.direction == "only moves"),
        ("time estimated", effect.is_estimated and effect.duration_ms),
    )
    return [
        topic,
        effect.partition,
        number(effect.committed),
        number(effect.offset),
        effect.direction or UNKNOWN,
        *(number(None if each is None else abs(each)) for each in amounts),
        UNKNOWN if effect.duration_ms is None else f"{abs(effect.duration_ms) / 1_000:,.1f}",
        ", ".join(text for text, is_so in notes if is_so),
    ]
