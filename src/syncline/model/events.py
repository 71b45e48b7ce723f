"""Journal events: what a cluster decided and measured, as data that outlives the processes that knew it.

Every broker appends events to the journal topic (`ids.JOURNAL_TOPIC`). The one hard idea is that a reader may be older
or newer than the writer: it ignores fields that it does not know, keeps an event of an unknown type as `UnknownEvent`,
and refuses only an event of a known type that lacks a field. So a field may be added at any time, with a default;
renaming one, removing one or changing its unit or meaning raises `VERSION`.

On the wire an event is one flat JSON object in UTF-8, without blanks: the envelope first, then the event's own
fields under their names here. A record's key is `journal_key(event)`, so that one subject's events stay in order.

    envelope            v int (VERSION) | type string | ts_ms int | broker int
    isr_change          topic, partition, leader_epoch, partition_epoch | change: shrink, expand, relinquish
                        outcome: committed, refused | before, after: [broker] | rule string | evidence {}
    election            topic, partition, leader_before, leader_after, leader_epoch | isr, isr_before: [broker]
                        reason: `reasons.Reason` | clean bool | evidence {}
    truncation          topic, partition, leader, leader_epoch | log_end_before, log_end_after | rule | evidence {}
    follower_progress   topic, partition, leader_epoch, follower | log_end, follower_log_end, high_watermark
                        lag_records, lag_ms, lag_bytes | in_sync bool | interval_ms | inflow_records, inflow_bytes
                        log_bytes
    watermark           topic, partition, leader_epoch | phase: held, resumed | high_watermark, log_end
                        since_ms, lasted_ms | rule | evidence {}
    observation         kind string | subject | phase: begin, ongoing, end | since_ms, lasted_ms
                        topic, partition | evidence {}
    reassignment        topic, partition | phase: started, changed, completed, cancelled
                        replicas, adding, removing, original: [broker] | move string | reason: `reasons.Reason`
                        evidence {}
    topic_change        topic, topic_id string | change: created, grown, deleted | partitions
    broker_state        subject | state: registered, unfenced, fenced, shutdown | reason: `reasons.Reason`
                        evidence {}
    throttle            role: leader, follower | move string | phase: begin, ongoing, end | since_ms, lasted_ms
                        quota_bytes_per_s, rate_bytes_per_s | held, ratio number | replicas: ["TOPIC-PARTITION@BROKER"]
                        mode string | taken: [{replica, bytes, move}]
    move                move, name string | phase: started, changed, ended | throttle_bytes_per_s
                        control: "", deadline, impact | deadline_ms, impact_percent | reason: `reasons.Reason`
    acknowledgements    interval_ms | count | p50_ms, p99_ms, max_ms
    fault               kind, target string | phase: begin, end | note string

`lag_events` has the events of consumer lag.

Who writes what:

- a leader: its ISR changes, the stalls of its watermark, and the progress of its followers;
- a follower: its truncations;
- every broker: what its throttles hold back, as the leader that sends and the follower that receives, by rates and
  lists (`move` is "") or for a move; samples name up to 100 held replicas with their brokers, and count all;
- every broker: what it observes (`observation`: it decided nothing, but something was unusual);
- every broker that leads: how long clients waited for its followers (`acknowledgements`: from the append of a request
  with acks=all to its answer);
- the controller: elections (also the first one of a new partition, reason CREATED, leader_before -1), ISR changes that
  it decides itself (a fenced replica: rule "fencing", one that a reassignment drops or adds: "reassignment"), the
  reassignments of replicas, the moves that own them, the changes of topics, and the states of brokers (`subject` is
  the broker concerned);
- the injector of a fault: that fault, with broker -1 if the injector is not a broker. A fault's target is "broker-N",
  "TOPIC-PARTITION", or the directions of a link ("broker-1>broker-2,broker-2>broker-1"); the two phases of one fault
  have the same kind and target.

Units: `ts_ms` and `since_ms` are Unix time by the writer's clock; all other `*_ms` fields of events are durations in
milliseconds; `*_log_end` and watermarks are exclusive offsets; an unknown number is -1. `before` and `after` are the
ISR in ascending order; for a refused change `after` is what the leader proposed. `evidence` holds the numbers that the
rule compared, as JSON values; its times are of the writer's monotonic clock, which showed `noted_ms` at `ts_ms`. The
phases of an observation have the same writer, kind, subject, partition and `since_ms`; an observation noticed
afterwards has only the last phase. A progress sample describes the interval that ends at `ts_ms`: the largest lag in
it and the log ends at its end.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from syncline.model.ids import NONE, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from syncline.model.immutable import Immutable
from syncline.model.lag_events import FetchLagSample, GroupLagSample, GroupStatusChange
from syncline.model.reasons import Reason, reason_of

# 2: reasons are values of `reasons.Reason`; they were text before.
VERSION: Final = 2

Json: TypeAlias = "str | int | float | bool | list[Any] | tuple[Any, ...] | Mapping[str, Any] | None"


class EventDecodeError(ValueError):
    """Bytes that are not a journal event: not JSON, without envelope, or a known type that lacks a required field."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IsrChange(Immutable):
    """The ISR of a partition shrank or grew, or the controller refused the change; `rule` and `evidence` say why."""

    TYPE: ClassVar[str] = "isr_change"

    ts_ms: int
    broker: BrokerId
    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    change: Literal["shrink", "expand", "relinquish"]
    outcome: Literal["committed", "refused"]
    before: tuple[BrokerId, ...]
    after: tuple[BrokerId, ...]
    rule: str
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Election(Immutable):
    """A partition got another leader, or none (`leader_after` -1); not `clean` means that records may be lost."""

    TYPE: ClassVar[str] = "election"

    ts_ms: int
    broker: BrokerId
    topic: str
    partition: int
    leader_before: BrokerId
    leader_after: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    reason: Reason
    clean: bool = True
    isr_before: tuple[BrokerId, ...] = ()
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Truncation(Immutable):
    """The writing broker cut its log back because the leader's history does not contain the rest."""

    TYPE: ClassVar[str] = "truncation"

    ts_ms: int
    broker: BrokerId
    topic: str
    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    log_end_before: Offset
    log_end_after: Offset
    rule: str
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FollowerProgress(Immutable):
    """How far one follower was behind the writing leader in the interval that ended at `ts_ms`."""

    TYPE: ClassVar[str] = "follower_progress"

    ts_ms: int
    broker: BrokerId
    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    follower: BrokerId
    log_end: Offset
    follower_log_end: Offset
    high_watermark: Offset
    lag_records: int
    lag_ms: int
    lag_bytes: int = NONE
    in_sync: bool = True
    interval_ms: int = NONE
    inflow_records: int = NONE
    inflow_bytes: int = NONE
    log_bytes: int = NONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Watermark(Immutable):
    """The writing leader's high watermark is stalled below waiting records, or advances again."""

    TYPE: ClassVar[str] = "watermark"

    ts_ms: int
    broker: BrokerId
    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    phase: Literal["held", "resumed"]
    high_watermark: Offset
    log_end: Offset
    since_ms: int
    lasted_ms: int
    rule: str = ""
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Observation(Immutable):
    """The writing broker noticed something unusual about itself (`subject` is `broker`) or about another broker."""

    TYPE: ClassVar[str] = "observation"

    ts_ms: int
    broker: BrokerId
    kind: str
    subject: BrokerId
    phase: Literal["begin", "ongoing", "end"]
    since_ms: int
    lasted_ms: int
    topic: str = ""
    partition: int = NONE
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reassignment(Immutable):
    """The replicas of a partition are reassigned, to other ones than before, or no longer.

    `replicas` are those of after the event; at the end, `adding` and `removing` say what was in progress until then.
    """

    TYPE: ClassVar[str] = "reassignment"

    ts_ms: int
    broker: BrokerId
    topic: str
    partition: int
    phase: Literal["started", "changed", "completed", "cancelled"]
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...]
    move: str = ""
    reason: Reason = Reason.UNKNOWN
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TopicChange(Immutable):
    """A topic was created, got more partitions, or was deleted with all its records.

    A later topic may have the same name, but never the same id. `partitions` is their number after the change; of a
    deleted topic, before it.
    """

    TYPE: ClassVar[str] = "topic_change"

    ts_ms: int
    broker: BrokerId
    topic: str
    topic_id: str
    change: Literal["created", "grown", "deleted"]
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BrokerState(Immutable):
    """The controller's view of broker `subject` changed."""

    TYPE: ClassVar[str] = "broker_state"

    ts_ms: int
    broker: BrokerId
    subject: BrokerId
    state: Literal["registered", "unfenced", "fenced", "shutdown"]
    reason: Reason = Reason.UNKNOWN
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Throttle(Immutable):
    """A quota of the writing broker begins to hold replicas back, still does, or did last some seconds ago."""

    TYPE: ClassVar[str] = "throttle"

    ts_ms: int
    broker: BrokerId
    role: Literal["leader", "follower"]
    phase: Literal["begin", "ongoing", "end"]
    since_ms: int
    lasted_ms: int
    quota_bytes_per_s: int
    rate_bytes_per_s: int
    held: int
    replicas: tuple[str, ...] = ()
    ratio: float = 0.0
    mode: str = "strict"
    move: str = ""
    taken: tuple[Mapping[str, Json], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Move(Immutable):
    """A move began, has another throttle or goal, or is over; its reassignments have events of their own."""

    TYPE: ClassVar[str] = "move"

    ts_ms: int
    broker: BrokerId
    move: str
    phase: Literal["started", "changed", "ended"]
    name: str = ""
    throttle_bytes_per_s: int = NONE
    control: str = ""
    deadline_ms: int = NONE
    impact_percent: int = NONE
    reason: Reason = Reason.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Acknowledgements(Immutable):
    """How long the writing leader's clients waited for followers (acks=all), in the interval that ended at `ts_ms`."""

    TYPE: ClassVar[str] = "acknowledgements"

    ts_ms: int
    broker: BrokerId
    interval_ms: int
    count: int
    p50_ms: int
    p99_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Fault(Immutable):
    """A fault that was injected on purpose: the truth that explanations are tested against."""

    TYPE: ClassVar[str] = "fault"

    ts_ms: int
    broker: BrokerId
    kind: str
    target: str
    phase: Literal["begin", "end"]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UnknownEvent(Immutable):
    """An event of a type that only newer writers know; all fields beyond the envelope are in `rest`."""

    type: str
    version: int
    ts_ms: int
    broker: BrokerId
    rest: Mapping[str, Json]


KnownEvent: TypeAlias = (
    IsrChange
    | Election
    | Truncation
    | FollowerProgress
    | Watermark
    | Observation
    | Reassignment
    | TopicChange
    | BrokerState
    | Throttle
    | Move
    | Acknowledgements
    | FetchLagSample
    | GroupLagSample
    | GroupStatusChange
    | Fault
)
# Measurements: many, and of use only together with others.
Sample: TypeAlias = FollowerProgress | Acknowledgements | FetchLagSample | GroupLagSample
Event: TypeAlias = KnownEvent | UnknownEvent

_CLASSES: Final[tuple[type[KnownEvent], ...]] = get_args(KnownEvent)
_BY_TYPE: Final[dict[str, type[KnownEvent]]] = {known.TYPE: known for known in _CLASSES}
# Look the names up once: `dataclasses.asdict` copies deeply and would cost ten times as much per event.
_OWN_FIELDS: Final[dict[type[KnownEvent], tuple[str, ...]]] = {
    known: tuple(f.name for f in fields(known) if f.name not in {"ts_ms", "broker"}) for known in _CLASSES
}
_ENVELOPE: Final = frozenset({"v", "type", "ts_ms", "broker"})
_LISTS: Final = frozenset(
    {"before", "after", "isr", "isr_before", "replicas", "adding", "removing", "original", "taken"}
    | {"behind_bytes", "event_ms", "age_ms", "distance_bytes", "rows", "findings"}
)

# One encoder for all: `json.dumps` with separators would build one per call. Keys keep our order.
_encode: Final[Callable[[Any], str]] = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def to_json(event: Event) -> bytes:
    """Return the event as the bytes of a journal record's value."""
    if isinstance(event, UnknownEvent):
        content: dict[str, Any] = {
            "v": event.version,
            "type": event.type,
            "ts_ms": event.ts_ms,
            "broker": event.broker,
            **event.rest,
        }
        return _encode(content).encode()
    content = {"v": VERSION, "type": event.TYPE, "ts_ms": event.ts_ms, "broker": event.broker}
    for name in _OWN_FIELDS[type(event)]:
        content[name] = getattr(event, name)
    return _encode(content).encode()


def from_json(data: bytes | bytearray | memoryview | str) -> Event:
    """Return the event that a journal record's value holds.

    Drops unknown fields of known types. Raises `EventDecodeError` if the value is not an event, or lacks a field
    that has no default.
    """
    try:
        content = json.loads(data if isinstance(data, str) else bytes(data))
        name, version = str(content["type"]), int(content["v"])
        ts_ms, broker = int(content["ts_ms"]), BrokerId(int(content["broker"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EventDecodeError(f"no journal event: {error!r}") from error
    known = _BY_TYPE.get(name)
    if known is None:
        rest = {key: value for key, value in content.items() if key not in _ENVELOPE}
        return UnknownEvent(type=name, version=version, ts_ms=ts_ms, broker=broker, rest=rest)
    try:
        values: dict[str, Any] = {
            key: tuple(content[key]) if key in _LISTS else content[key] for key in _OWN_FIELDS[known] if key in content
        }
        if "reason" in values:
            values["reason"] = reason_of(values["reason"])
        return known(ts_ms=ts_ms, broker=broker, **values)
    except TypeError as error:
        raise EventDecodeError(f"a {name} event is incomplete: {error}") from error


def journal_key(event: Event) -> bytes:
    """Return the key of the event's journal record: its partition, topic, broker, group or move; a fault's target."""
    match event:
        case IsrChange() | Election() | Truncation() | FollowerProgress() | Watermark() | Reassignment():
            return f"{event.topic}-{event.partition}".encode()
        case Observation() if event.topic:
            return f"{event.topic}-{event.partition}".encode()
        case TopicChange():
            return f"topic-{event.topic}".encode()
        case BrokerState() | Observation():
            return f"broker-{event.subject}".encode()
        case GroupLagSample() | GroupStatusChange():
            return f"group-{event.group}".encode()
        case Throttle() | Acknowledgements() | FetchLagSample():
            return f"broker-{event.broker}".encode()
        case Move():
            return f"move-{event.move}".encode()
        case Fault():
            return event.target.encode()
        case UnknownEvent():
            return event.type.encode()
