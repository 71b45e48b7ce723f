"""History: the journal's events that concern one partition and its brokers, each once and ordered by time.

Brokers report one observation several times: when it begins, while it lasts and when it ends. `Observed` is all
reports of one observation.

Injected faults are the truth that explanations are tested against, so they are left out here.
Units: Unix milliseconds by the writers' clocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from syncline.model.events import (
    Acknowledgements,
    BrokerState,
    Election,
    Event,
    Fault,
    FollowerProgress,
    IsrChange,
    Move,
    Observation,
    Reassignment,
    Throttle,
    TopicChange,
    Truncation,
    UnknownEvent,
    Watermark,
    to_json,
)
from syncline.model.lag_events import FetchLagSample, GroupLagSample, GroupStatusChange


@dataclass(slots=True)
class Observed:
    """All reports of one observation."""

    first: Observation
    last: Observation
    is_over: bool
    beats_heard: int

    @property
    def begin_ms(self) -> int:
        """When it began."""
        return self.last.since_ms

    @property
    def end_ms(self) -> int:
        """When it ended, or when it was last reported."""
        return self.last.since_ms + self.last.lasted_ms

    def add(self, event: Observation, beats_heard: int) -> None:
        """Merge another report of the same observation."""
        assert event.since_ms == self.first.since_ms, f"{event.since_ms} and {self.first.since_ms} are two observations"
        self.beats_heard = max(self.beats_heard, beats_heard)
        self.is_over = self.is_over or event.phase == "end"
        if event.lasted_ms >= self.last.lasted_ms:
            self.last = event


# The fields that identify an observation; two reads for two followers may begin in the same millisecond.
_Name = tuple[int, str, int, str, int, int, object, object]


class History:
    """The events that concern one partition and its brokers."""

    def __init__(self, events: Iterable[Event], topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.isr_changes: list[IsrChange] = []
        self.elections: list[Election] = []
        self.truncations: list[Truncation] = []
        self.watermarks: list[Watermark] = []
        self.progress: list[FollowerProgress] = []
        self.deletions: list[TopicChange] = []
        self.states: list[BrokerState] = []
        self.reassignments: list[Reassignment] = []
        self.throttles: list[Throttle] = []
        observed: dict[_Name, Observed] = {}
        for event in _each_once(events):
            match event:
                case Observation():
                    _merge(observed, event)
                case TopicChange():
                    if event.topic == topic and event.change == "deleted":
                        self.deletions.append(event)
                case BrokerState():
                    self.states.append(event)
                case Throttle():
                    self.throttles.append(event)
                case Fault() | UnknownEvent() | Move() | Acknowledgements():
                    pass
                case FetchLagSample() | GroupLagSample() | GroupStatusChange():
                    # Consumers are behind what is committed: that is no cause of what replicas do.
                    pass
                case _ if (event.topic, event.partition) != (topic, partition):
                    pass
                case IsrChange():
                    self.isr_changes.append(event)
                case Election():
                    self.elections.append(event)
                case Truncation():
                    self.truncations.append(event)
                case Watermark():
                    self.watermarks.append(event)
                case FollowerProgress():
                    self.progress.append(event)
                case Reassignment():
                    self.reassignments.append(event)
                case _:
                    assert_never(event)
        self.observations: list[Observed] = sorted(observed.values(), key=lambda each: each.begin_ms)

    @property
    def key(self) -> str:
        """TOPIC-PARTITION."""
        return f"{self.topic}-{self.partition}"

    def of_kind(self, kind: str) -> list[Observed]:
        """Return the observations of one kind."""
        return [each for each in self.observations if each.last.kind == kind]

    def has_before(self, at_ms: int) -> bool:
        """Return whether there was a partition of this name before a time: it may have been created again."""
        of_partition: list[Election | IsrChange | FollowerProgress]
        of_partition = [*self.elections, *self.isr_changes, *self.progress]
        return any(each.ts_ms < at_ms for each in of_partition)

    def leader_at(self, at_ms: int, otherwise: int = -1) -> int:
        """Return the leader of the partition at a time; `otherwise` if no event shows it."""
        for election in self.elections:
            if election.ts_ms > at_ms:
                if election.leader_before >= 0:
                    return election.leader_before
                break
        earlier = [each.leader_after for each in self.elections if each.ts_ms <= at_ms]
        if earlier:
            return earlier[-1]
        samples = sorted(self.progress, key=lambda each: abs(each.ts_ms - at_ms))
        return samples[0].broker if samples else otherwise

    def replicas(self) -> tuple[int, ...]:
        """Return every broker that is a replica according to the events."""
        found: dict[int, None] = {}
        for change in self.isr_changes:
            found.update(dict.fromkeys((*change.before, *change.after)))
        for election in self.elections:
            found.update(dict.fromkeys((*election.isr, *election.isr_before)))
        for sample in self.progress:
            found.update(dict.fromkeys((sample.broker, sample.follower)))
        return tuple(sorted(found))


def _each_once(events: Iterable[Event]) -> list[Event]:
    """Return the events in order of time, without those that a broker's retry wrote twice."""
    unique: dict[bytes, Event] = {}
    for event in events:
        if not isinstance(event, Fault | UnknownEvent):
            unique.setdefault(to_json(event), event)
    return sorted(unique.values(), key=lambda each: each.ts_ms)


def _merge(observed: dict[_Name, Observed], event: Observation) -> None:
    of_what = (event.evidence.get("op"), event.evidence.get("for_replica"))
    name = (event.broker, event.kind, event.subject, event.topic, event.partition, event.since_ms, *of_what)
    beats = event.evidence.get("beats_heard")
    beats_heard = beats if isinstance(beats, int) else 0
    known = observed.get(name)
    if known is None:
        observed[name] = Observed(event, event, event.phase == "end", beats_heard)
    else:
        known.add(event, beats_heard)
