"""The stage of one run: a scenario's steps, the states of the brokers over time, and the actions on them.

A step ends when the brokers report the state that it waits for. The stage records
every state that it sees meanwhile, with its time, for the picture.

Offsets are exclusive ends; times are seconds since the run began.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from syncline.lab.client import Client
from syncline.lab.cliff_facts import CliffFacts
from syncline.lab.cluster import LabCluster, State, pause_between_looks
from syncline.lab.errors import LabError
from syncline.lab.lag_lies_page import Measured
from syncline.model.events import Event

# Long enough for a slow machine; a step that takes longer has failed.
PATIENCE_S: Final = 60.0
TOPIC: Final = "t"


@dataclass(frozen=True, kw_only=True)
class Replica:
    """The state of one replica at one moment; for a dead or paused one, its last reported state."""

    state: State = "dead"
    role: str = ""
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    log_end: int = 0
    high_watermark: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    isr: tuple[int, ...] = ()
    phase: str | None = None

    @property
    def ends(self) -> tuple[int, int]:
        """Log end and high watermark."""
        return self.log_end, self.high_watermark

    @property
    def leads(self) -> bool:
        """Whether this replica leads, according to its own broker."""
        return self.state == "running" and self.role == "leader"

    @property
    def history(self) -> str:
        """Each epoch with its start offset: 0@0 1@2."""
        return " ".join(f"{epoch}@{start}" for epoch, start in self.epochs) or "-"


@dataclass(frozen=True)
class Sample:
    """The state of a replica from a moment on."""

    at_s: float
    broker_id: int
    replica: Replica


@dataclass(frozen=True)
class Mark:
    """An action on a broker, or on the whole cluster if `broker_id` is None."""

    at_s: float
    broker_id: int | None
    label: str


@dataclass
class Step:
    """One step of the history, with the state of the replicas at its end."""

    number: int
    text: str
    start_s: float
    end_s: float = 0.0
    replicas: dict[int, Replica] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """The result in words, and whether this mode must lead to it."""

    text: str
    is_expected: bool


@dataclass
class Story:
    """The record of a whole run, for printing, drawing and comparing it."""

    scenario: str
    mode: str
    lanes: dict[int, str]
    steps: list[Step] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    contents: dict[int, list[str]] = field(default_factory=dict)
    # The cluster's journal, for stories that are told from it.
    journal: list[Event] = field(default_factory=list)
    # Consumer groups as the brokers measured them, for stories about these.
    measured: list[Measured] = field(default_factory=list)
    # What readers of old records found in memory, and how long fetches took, for stories about these.
    cliff: CliffFacts | None = None
    outcome: Outcome = Outcome("the run did not finish", is_expected=False)
    lasted_s: float = 0.0

    @property
    def first_s(self) -> float:
        """Return when the first step began: readers count from there, not from the start of the brokers."""
        return self.steps[0].start_s if self.steps else 0.0


class Stage:
    """The brokers and clients of one run, as its scenario uses them."""

    def __init__(self, cluster: LabCluster, story: Story, say: Callable[[str], object]) -> None:
        self.cluster = cluster
        self.story = story
        self.replicas: dict[int, Replica] = {broker_id: Replica() for broker_id in story.lanes}
        # What the brokers last reported about the cluster: the controller, and which brokers are not fenced.
        self.controller = -1
        self.unfenced: list[int] = []
        self._version = -1
        self._say = say
        self._began_s = time.monotonic()
        self._clients: dict[int, Client] = {}

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began_s

    def close(self) -> None:
        """Close all connections, and record how long the run took."""
        for client in self._clients.values():
            client.close()
        self.story.lasted_s = self.now_s

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """Play one step: the body acts and waits."""
        step = Step(len(self.story.steps) + 1, text, self.now_s)
        self.story.steps.append(step)
        try:
            yield step
        finally:
            self.look()
            step.end_s = self.now_s
            step.replicas = dict(self.replicas)
        for line in lines_of(step, self.story.lanes, first_s=self.story.first_s):
            self._say(line)

    def look(self) -> dict[int, Replica]:
        """Query all running brokers, and record changes."""
        self.cluster.read_events()
        for broker_id in self.cluster.processes:
            if broker_id not in self.replicas:
                self._update_cluster(self.cluster.view(broker_id, TOPIC))
        for broker_id, before in self.replicas.items():
            now = self._seen(broker_id, before)
            if now != before:
                self._keep(broker_id, now)
        return self.replicas

    def _keep(self, broker_id: int, now: Replica) -> None:
        self.replicas[broker_id] = now
        self.story.samples.append(Sample(self.now_s, broker_id, now))

    def _update_cluster(self, view: Mapping[str, Any] | None) -> None:
        """Keep a broker's report of the cluster, unless it has older metadata than the last report."""
        if view is not None and view["version"] >= self._version:
            self._version = view["version"]
            self.controller = view["controller"]
            self.unfenced = view["unfenced"]

    def _seen(self, broker_id: int, before: Replica) -> Replica:
        view = self.cluster.view(broker_id, TOPIC)
        state = self.cluster.processes[broker_id].state
        if view is None:
            # A starting broker counts as dead until its first answer.
            if state == "dead" or before.state == "dead":
                return replace(before, state="dead", role="", phase=None)
            return replace(before, state="silent" if state == "running" else state)
        self._update_cluster(view)
        row = next((row for row in view["replicas"] if row["partition"] == 0), None)
        return replace(before, state=state, role="") if row is None else _replica_of(state, row)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Observe until the condition holds; the error of a timeout names `what` was awaited."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            self.look()
            if condition():
                return
            if time.monotonic() > deadline_s:
                seen = "; ".join(
                    f"{named(each, self.story.lanes)}: {described(replica)}" for each, replica in self.replicas.items()
                )
                raise LabError(f"this did not happen within {PATIENCE_S:.0f} s: {what}. Last seen: {seen}.")
            pause_between_looks()

    def until_ends(self, ends: Mapping[int, tuple[int, int]]) -> None:
        """Observe until these replicas have these log ends and high watermarks."""
        wanted = ", ".join(
            f"{named(each, self.story.lanes)} at LEO {end:,} HW {mark:,}" for each, (end, mark) in ends.items()
        )
        self.until(lambda: all(self.replicas[each].ends == pair for each, pair in ends.items()), wanted)

    def mark(self, broker_id: int | None, label: str) -> None:
        """Record an action, for the picture."""
        self.story.marks.append(Mark(self.now_s, broker_id, label))

    def start(self, *broker_ids: int, config: Mapping[str, str] | None = None, quietly: bool = False) -> None:
        """Start brokers at the same time, and wait until all serve."""
        for broker_id in broker_ids:
            if not quietly:
                self.mark(broker_id, "started")
            self.cluster.start(broker_id, config)
        processes = [self.cluster.processes[broker_id] for broker_id in broker_ids]
        self.until(lambda: all(each.is_serving for each in processes), f"brokers {broker_ids} serve")

    def kill(self, broker_id: int, label: str = "killed") -> None:
        """End a broker's process at once."""
        self.mark(broker_id, label)
        self._disconnect(broker_id)
        self.cluster.send_signal(broker_id, signal.SIGKILL)
        self._keep(broker_id, replace(self.replicas[broker_id], state="dead", role="", phase=None))
        self.until(lambda: self.cluster.processes[broker_id].is_gone, f"broker {broker_id} is dead")

    def stop(self, broker_id: int) -> None:
        """Stop a broker cleanly: it hands over its leaderships and syncs its logs."""
        self.mark(broker_id, "stopped cleanly")
        self._disconnect(broker_id)
        self.cluster.send_signal(broker_id, signal.SIGTERM)
        self.until(lambda: self.cluster.processes[broker_id].is_gone, f"broker {broker_id} has stopped")

    def pause(self, broker_id: int, label: str = "paused") -> None:
        """Stop a broker's process without ending it (SIGSTOP): other brokers see only silence."""
        self.look()
        self.mark(broker_id, label)
        self.cluster.send_signal(broker_id, signal.SIGSTOP)
        self._keep(broker_id, replace(self.replicas[broker_id], state="paused"))

    def resume(self, broker_id: int) -> None:
        """Resume a paused process."""
        self.mark(broker_id, "wakes up")
        self.cluster.send_signal(broker_id, signal.SIGCONT)
        self._keep(broker_id, replace(self.replicas[broker_id], state="running"))

    def begin_fault(self, kind: str, takers: Sequence[int], lane: int | None, label: str, **fields: Any) -> str:
        """Begin a fault at these brokers, and return its id; the picture shows `label` in a lane."""
        fault_id = f"lab-{len(self.story.marks)}"
        self.mark(lane, label)
        for broker_id in takers:
            self.cluster.control(broker_id).call("faults.add", id=fault_id, kind=kind, **fields)
        return fault_id

    def end_fault(self, fault_id: str, takers: Sequence[int], lane: int | None, label: str) -> None:
        """End a fault."""
        self.mark(lane, label)
        for broker_id in takers:
            self.cluster.control(broker_id).call("faults.clear", id=fault_id)

    def client(self, broker_id: int) -> Client:
        """Return a connection to a broker, the same one until its process ends."""
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self.cluster.client(broker_id)
        return client

    def _disconnect(self, broker_id: int) -> None:
        client = self._clients.pop(broker_id, None)
        if client is not None:
            client.close()

    def write(self, broker_id: int, values: Sequence[str], *, acks: int) -> int:
        """Write the values as one batch, and return the offset of the first; a refusal ends the run."""
        produced = self.client(broker_id).produce(TOPIC, values, acks=acks)
        if produced.error:
            raise LabError(f"{named(broker_id, self.story.lanes)} refused to write {values[0]}: {produced.error.name}")
        return produced.base_offset

    def topic(
        self, replicas: tuple[int, ...], ask: int, configs: Mapping[str, str] | None = None, *, partitions: int = 1
    ) -> None:
        """Create the story's topic through broker `ask`; the stage looks at its first partition."""
        self.client(ask).create_topic(TOPIC, replicas, configs or {}, partitions=partitions)
        self.until(
            lambda: all(self.replicas[each].isr == replicas for each in replicas if each in self.replicas),
            f"all of {replicas} host the topic",
        )
        leader = replicas[0]
        self.until(lambda: self.replicas[leader].leads, f"broker {leader} leads")

    def lost_on_disk(self, broker_id: int, log_end: int) -> None:
        """Record that a dead replica's disk has lost everything from `log_end` on."""
        before = self.replicas[broker_id]
        mark = min(before.high_watermark, log_end)
        self._keep(broker_id, replace(before, log_end=log_end, high_watermark=mark))

    def read_contents(self) -> dict[int, list[str]]:
        """Return the values in each replica's files, committed or not; the picture shows them, too."""
        self.story.contents = {
            broker_id: [value for _, _, value in self.cluster.contents(broker_id, TOPIC)] for broker_id in self.replicas
        }
        return self.story.contents


def named(broker_id: int, lanes: Mapping[int, str]) -> str:
    """Return the name of a replica in the story."""
    name = lanes[broker_id]
    return f"{name} (broker {broker_id})" if name else f"broker {broker_id}"


def lines_of(step: Step, lanes: Mapping[int, str], *, first_s: float) -> Iterator[str]:
    """Yield a step as lines for a terminal: its text and when it ended after `first_s`, its notes, each replica."""
    yield f"{step.number:>3}. {step.text}   [{step.end_s - first_s:.2f} s]"
    for note in step.notes:
        yield f"       ({note})"
    width = max(len(named(broker_id, lanes)) for broker_id in lanes)
    # A mark is never above the log end of its replica.
    digits = max((len(f"{each.log_end:,}") for each in step.replicas.values()), default=0)
    for broker_id, replica in step.replicas.items():
        yield f"       {named(broker_id, lanes):<{width}}  {described(replica, digits)}"


def described(replica: Replica, digits: int = 0) -> str:
    """Return a replica in one line; offsets are padded to at least `digits`."""
    room = max(3, digits)
    where = f"LEO {replica.log_end:<{room},} HW {replica.high_watermark:<{room},} epochs {replica.history}"
    if replica.state != "running":
        return f"{replica.state:<9} {where}"
    if replica.leads:
        return f"leader    {where}   leader epoch {replica.leader_epoch}, ISR {list(replica.isr)}"
    return f"{replica.role or '-':<9} {where}"


def _replica_of(state: State, row: Mapping[str, Any]) -> Replica:
    return Replica(
        state=state,
        role=row["role"],
        leader=-1 if row["leader"] is None else row["leader"],
        leader_epoch=row["leader_epoch"],
        partition_epoch=-1 if row["partition_epoch"] is None else row["partition_epoch"],
        log_end=row["log_end"],
        high_watermark=row["high_watermark"],
        epochs=tuple((epoch, start) for epoch, start in row["epochs"]),
        isr=tuple(row["isr"] or ()),
        phase=row["phase"],
    )
