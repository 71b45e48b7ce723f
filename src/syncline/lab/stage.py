"""The stage of one run: a scenario's steps, what the brokers were seen to be at each moment, and what was done to them.

A step ends when the brokers report what it waits for. Everything that is seen
on the way is kept with its time, for the picture.

Offsets are exclusive ends; times are seconds since the run began.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from syncline.lab.client import Client
from syncline.lab.cluster import LabCluster, State, pause_between_looks
from syncline.lab.errors import LabError

# A machine may be slow; a history that does not come about in this time does not come about.
PATIENCE_S: Final = 60.0
TOPIC: Final = "t"


@dataclass(frozen=True, kw_only=True)
class Replica:
    """What is known of one replica at one moment. Of a dead or paused one: what it was when it last spoke."""

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
        """Whether this replica leads, as far as its broker knows."""
        return self.state == "running" and self.role == "leader"

    @property
    def history(self) -> str:
        """The epochs and where they begin, as one word."""
        return " ".join(f"{epoch}@{start}" for epoch, start in self.epochs) or "-"


@dataclass(frozen=True)
class Sample:
    """A replica as it was from a moment on."""

    at_s: float
    broker_id: int
    replica: Replica


@dataclass(frozen=True)
class Mark:
    """Something that was done to a broker, or to the cluster if `broker_id` is None."""

    at_s: float
    broker_id: int | None
    label: str


@dataclass
class Step:
    """One step of the history, with what the replicas were at its end."""

    number: int
    text: str
    start_s: float
    end_s: float = 0.0
    replicas: dict[int, Replica] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What came of it, and whether that is what this mode must lead to."""

    text: str
    is_expected: bool


@dataclass
class Told:
    """A whole run, as it is told, drawn and compared."""

    scenario: str
    mode: str
    lanes: dict[int, str]
    steps: list[Step] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    contents: dict[int, list[str]] = field(default_factory=dict)
    outcome: Outcome = Outcome("nothing came of it", is_expected=False)
    lasted_s: float = 0.0


class Stage:
    """What a scenario plays on."""

    def __init__(self, cluster: LabCluster, told: Told, say: Callable[[str], object]) -> None:
        self.cluster = cluster
        self.told = told
        self.replicas: dict[int, Replica] = {broker_id: Replica() for broker_id in told.lanes}
        # What the brokers last said of the cluster: who is the controller, who is not fenced.
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
        """Close what the scenario left open."""
        for client in self._clients.values():
            client.close()
        self.told.lasted_s = self.now_s

    # Telling.

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """Play one step; what is written inside happens and is waited for."""
        step = Step(len(self.told.steps) + 1, text, self.now_s)
        self.told.steps.append(step)
        try:
            yield step
        finally:
            self.look()
            step.end_s = self.now_s
            step.replicas = dict(self.replicas)
        self._tell(step)

    def _tell(self, step: Step) -> None:
        self._say(f"{step.number:>3}. {step.text}   [{step.end_s:.2f} s]")
        for note in step.notes:
            self._say(f"       ({note})")
        width = max(len(self.name(broker_id)) for broker_id in self.told.lanes)
        for broker_id, replica in step.replicas.items():
            self._say(f"       {self.name(broker_id):<{width}}  {told_of(replica)}")

    def name(self, broker_id: int) -> str:
        """Return what a replica is called in the story."""
        called = self.told.lanes[broker_id]
        return f"{called} (broker {broker_id})" if called else f"broker {broker_id}"

    # Looking and waiting.

    def look(self) -> dict[int, Replica]:
        """Ask all brokers that can be asked, and keep what is new."""
        self.cluster.heed()
        for broker_id in self.cluster.processes:
            if broker_id not in self.replicas:
                self._hear(self.cluster.view(broker_id, TOPIC))
        for broker_id, before in self.replicas.items():
            now = self._seen(broker_id, before)
            if now != before:
                self._keep(broker_id, now)
        return self.replicas

    def _keep(self, broker_id: int, now: Replica) -> None:
        self.replicas[broker_id] = now
        self.told.samples.append(Sample(self.now_s, broker_id, now))

    def _hear(self, view: Mapping[str, Any] | None) -> None:
        """Take note of what a broker says of the cluster; the newest metadata count."""
        if view is not None and view["version"] >= self._version:
            self._version = view["version"]
            self.controller = view["controller"]
            self.unfenced = view["unfenced"]

    def _seen(self, broker_id: int, before: Replica) -> Replica:
        view = self.cluster.view(broker_id, TOPIC)
        state = self.cluster.processes[broker_id].state
        if view is None:
            # A broker that starts is not there before it says something.
            if state == "dead" or before.state == "dead":
                return replace(before, state="dead", role="", phase=None)
            return replace(before, state="silent" if state == "running" else state)
        self._hear(view)
        row = next((row for row in view["replicas"] if row["partition"] == 0), None)
        return replace(before, state=state, role="") if row is None else _replica_of(state, row)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Look until the brokers are so; `what` is for whoever waits in vain."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            self.look()
            if condition():
                return
            if time.monotonic() > deadline_s:
                seen = "; ".join(f"{self.name(each)}: {told_of(replica)}" for each, replica in self.replicas.items())
                raise LabError(f"waited {PATIENCE_S:.0f} s in vain for this: {what}. What was seen: {seen}.")
            pause_between_looks()

    def until_ends(self, ends: Mapping[int, tuple[int, int]]) -> None:
        """Look until these replicas have these log ends and high watermarks."""
        wanted = ", ".join(f"{self.name(each)} at LEO {end} HW {mark}" for each, (end, mark) in ends.items())
        self.until(lambda: all(self.replicas[each].ends == pair for each, pair in ends.items()), wanted)

    # Doing.

    def mark(self, broker_id: int | None, label: str) -> None:
        """Remember what is done now, for the picture."""
        self.told.marks.append(Mark(self.now_s, broker_id, label))

    def start(self, *broker_ids: int, config: Mapping[str, str] | None = None, quietly: bool = False) -> None:
        """Start brokers and wait until they serve; all at once."""
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
        """Have a broker stop in good order: it hands over what it leads, and syncs what it has."""
        self.mark(broker_id, "stopped in good order")
        self._disconnect(broker_id)
        self.cluster.send_signal(broker_id, signal.SIGTERM)
        self.until(lambda: self.cluster.processes[broker_id].is_gone, f"broker {broker_id} has stopped")

    def pause(self, broker_id: int, label: str = "paused") -> None:
        """Stop a broker's process without ending it: to others it is silent."""
        self.look()
        self.mark(broker_id, label)
        self.cluster.send_signal(broker_id, signal.SIGSTOP)
        self._keep(broker_id, replace(self.replicas[broker_id], state="paused"))

    def resume(self, broker_id: int) -> None:
        """Let a paused process go on."""
        self.mark(broker_id, "wakes up")
        self.cluster.send_signal(broker_id, signal.SIGCONT)
        self._keep(broker_id, replace(self.replicas[broker_id], state="running"))

    def begin_fault(self, kind: str, takers: Sequence[int], lane: int | None, label: str, **fields: Any) -> str:
        """Begin a fault at these brokers, and return its name; the picture shows `label` in a lane."""
        fault_id = f"lab-{len(self.told.marks)}"
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
            raise LabError(f"{self.name(broker_id)} refused to write {values[0]}: {produced.error.name}")
        return produced.base_offset

    def topic(self, replicas: tuple[int, ...], ask: int, configs: Mapping[str, str] | None = None) -> None:
        """Create the story's topic; broker `ask` is told."""
        self.client(ask).create_topic(TOPIC, replicas, configs or {})
        self.until(
            lambda: all(self.replicas[each].isr == replicas for each in replicas if each in self.replicas),
            f"all of {replicas} have the topic",
        )
        leader = replicas[0]
        self.until(lambda: self.replicas[leader].leads, f"broker {leader} leads")

    def lost_on_disk(self, broker_id: int, log_end: int) -> None:
        """Take note of what a dead replica's disk has lost."""
        before = self.replicas[broker_id]
        mark = min(before.high_watermark, log_end)
        self._keep(broker_id, replace(before, log_end=log_end, high_watermark=mark))

    # The end.

    def read_contents(self) -> dict[int, list[str]]:
        """Read what each replica's files hold, committed or not, and keep it for the picture."""
        self.told.contents = {
            broker_id: [value for _, _, value in self.cluster.contents(broker_id, TOPIC)] for broker_id in self.replicas
        }
        return self.told.contents


def told_of(replica: Replica) -> str:
    """Return a replica in one line."""
    if replica.state != "running":
        return f"{replica.state:<9} LEO {replica.log_end:<3} HW {replica.high_watermark:<3} epochs {replica.history}"
    where = f"LEO {replica.log_end:<3} HW {replica.high_watermark:<3} epochs {replica.history}"
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
