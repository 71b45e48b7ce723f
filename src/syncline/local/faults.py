"""Faults in a cluster that runs on this machine: begin them, see how often they struck, end them.

    faults = Faults("syncline-data")
    with faults.add("disk-slow", broker="leader", topic="orders", partition=3, direction="read", delay_s=2) as slow:
        ...
    assert slow.hits > 0

What a fault does inside a broker is the broker's (`syncline.node.faults`); here is who gets it. Nodes are named by
number, or by what they are when the fault begins: "controller", "leader" and "followers" of the partition, "all".
Pausing and killing is done with signals, so a pause is known by its file in the data directory.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from syncline.local.control import Control, ControlError, controls
from syncline.local.layout import Layout, LocalClusterError, RunningCluster, state_of
from syncline.node.faults.rules import (
    API_ERROR,
    API_KINDS,
    DELAYED_KINDS,
    DISK_KINDS,
    DURATION_MS_MAX,
    KINDS,
    LINK_CUT_ONE_WAY,
    LINK_KINDS,
)

PAUSE: Final = "pause"
KILL: Final = "kill"
ALL_KINDS: Final = (*KINDS, PAUSE, KILL)
Node = int | str

# How long a signal may take to have its effect; one that waits for its disk cannot be killed at once.
SIGNAL_TIMEOUT_S: Final = 5.0
# Whoever only lists does not wait long for a broker that stands still.
LOOK_TIMEOUT_S: Final = 2.0
# How soon whoever waits for the end of a pause sees that it has been ended.
LOOK_AGAIN_S: Final = 0.2
NODES: Final = "a broker's number, controller, leader, followers or all"


@dataclass
class Fault:
    """One fault, as of when it was last looked at; a context manager that ends it."""

    id: str
    kind: str
    # What each broker that has it says of it.
    rows: dict[int, dict[str, Any]]
    _faults: "Faults" = field(repr=False)
    # Whether its begin went into the journal.
    is_recorded: bool = True
    # What somebody who has mistyped something wants to know.
    remark: str = ""

    @property
    def brokers(self) -> tuple[int, ...]:
        """Who has it."""
        return tuple(sorted(self.rows))

    @property
    def hits(self) -> int:
        """How often it struck, asked for now; of one that was cleared, how often it had."""
        self.refresh()
        return sum(row["hits"] for row in self.rows.values())

    @property
    def seen(self) -> int:
        """How many operations were selected, asked for now."""
        self.refresh()
        return sum(row["seen"] for row in self.rows.values())

    @property
    def state(self) -> str:
        """Whether it may still strike ("active") or not ("over")."""
        return "active" if any(row["state"] == "active" for row in self.rows.values()) else "over"

    @property
    def left_s(self) -> float | None:
        """How long it will go on; None: until it is cleared, or over."""
        left = [row["left_ms"] for row in self.rows.values() if row.get("left_ms") is not None]
        return max(left) / 1_000 if left else None

    def refresh(self) -> None:
        """Ask the brokers again; those that do not know it any more, or do not answer, keep their last word."""
        for fault in self._faults.all():
            if fault.id == self.id:
                self.rows.update(fault.rows)

    def clear(self) -> None:
        """End it, if that has not been done."""
        with contextlib.suppress(NoSuchFault):
            for fault in self._faults.clear(self.id):
                self.rows.update(fault.rows)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "id": self.id,
            "kind": self.kind,
            "brokers": list(self.brokers),
            "state": self.state,
            "hits": sum(row["hits"] for row in self.rows.values()),
            "seen": sum(row["seen"] for row in self.rows.values()),
            "left_s": self.left_s,
            "what": self.what(),
            "rows": {str(broker): row for broker, row in self.rows.items()},
        }

    def what(self) -> str:
        """Return in words what is struck."""
        row = next(iter(self.rows.values()))
        words = ["/".join(row.get("directions", ())), " ".join(row.get("apis", ()))]
        links = [f"{source}>{target}" for source, target in row.get("links", ())]
        words.append(" ".join(links))
        if "topic" in row:
            words.append(f"{row['topic']}:{row['partition']}" if "partition" in row else row["topic"])
        words += [
            f"client {row['client_id']}" if "client_id" in row else "",
            row.get("error", ""),
            row.get("errno", ""),
        ]
        words.append(f"{row['delay_ms']} ms" if "delay_ms" in row else "")
        return " ".join(word for word in words if word)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.clear()


class NoSuchFault(ControlError):
    """There is no fault with this id."""


class Faults:
    """The faults of the cluster that runs in a data directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self._layout = Layout(self.directory)
        # Why brokers could not be asked the last time, by broker.
        self.silent: dict[int, str] = {}

    # Beginning.

    def add(
        self,
        kind: str,
        *,
        broker: Node | Sequence[Node] | None = None,
        source: Node | None = None,
        target: Node | Sequence[Node] | None = None,
        topic: str | None = None,
        partition: int | None = None,
        direction: str | Sequence[str] | None = None,
        delay_s: float | None = None,
        errno: str | None = None,
        api: str | Sequence[str] | None = None,
        client_id: str | None = None,
        listener: str | None = None,
        error: str | None = None,
        trigger: str | None = None,
        for_s: float | None = None,
        fault_id: str | None = None,
    ) -> Fault:
        """Begin a fault and return it once it is felt; raises `LocalClusterError` with a sentence.

        `broker` says whose disk or requests are struck (without: everybody's), or which broker is paused or killed;
        `source` and `target` which link. Without `for_s` it lasts until it is cleared.
        """
        if kind not in ALL_KINDS:
            raise LocalClusterError(f"there is no fault {kind!r}. Known: {', '.join(ALL_KINDS)}.")
        if for_s is not None and for_s <= 0:
            raise LocalClusterError(f"a fault lasts for more than 0 s, not {for_s:g}.")
        if for_s is not None and not for_s <= DURATION_MS_MAX / 1_000:
            raise LocalClusterError(f"a fault lasts for at most {DURATION_MS_MAX // 1_000} s, not {for_s:g}.")
        if fault_id is not None and _PAUSE_ID.fullmatch(fault_id):
            raise LocalClusterError(f"{fault_id!r} is the id of a pause of that broker, use another one.")
        if topic is None and partition is not None:
            raise LocalClusterError("a partition is selected together with its topic.")
        self._check_options(
            kind,
            {
                "broker": broker,
                "source": source,
                "target": target,
                "topic": topic,
                "partition": partition,
                "direction": direction,
                "delay_s": delay_s,
                "errno": errno,
                "api": api,
                "client_id": client_id,
                "listener": listener,
                "error": error,
                "trigger": trigger,
                "for_s": for_s,
                "fault_id": fault_id,
            },
        )
        brokers = self._controls()
        place = (topic, partition)
        if kind in (PAUSE, KILL):
            victims = self._resolve(_nodes(broker), brokers, place)
            if len(victims) != 1:
                raise LocalClusterError(f"{kind} takes one broker, not {', '.join(map(str, victims)) or 'none'}.")
            return self._pause(victims[0], for_s) if kind == PAUSE else self._kill(victims[0])
        fields: dict[str, Any] = {
            "id": fault_id or f"f-{secrets.token_hex(2)}",
            "kind": kind,
            "topic": topic,
            "partition": partition,
            "directions": _list(direction),
            "delay_ms": None if delay_s is None else max(1, round(delay_s * 1_000)),
            "errno": errno,
            "apis": _list(api),
            "client_id": client_id,
            "listener": listener,
            "error": error,
            "trigger": trigger,
            "duration_ms": None if for_s is None else max(1, round(for_s * 1_000)),
        }
        if kind in LINK_KINDS:
            links = self._links(kind, _nodes(source), _nodes(target), brokers, place)
            fields |= {"links": links, "topic": None, "partition": None}
            # The end that most links have in common is the one that may be cut off from the journal.
            takers = list(dict.fromkeys(broker for link in reversed(links) for broker in link))
        else:
            takers = self._resolve(_nodes("all" if broker is None else broker), brokers, place)
        fault = self._begin({name: value for name, value in fields.items() if value is not None}, takers, brokers)
        if kind not in LINK_KINDS and topic is not None:
            try:
                self._ask_somebody(brokers, "broker.partition", topic=topic, partition=partition or 0)
            except ControlError as refusal:
                fault.remark = str(refusal)
        return fault

    def pause(self, broker: Node, *, for_s: float | None = None) -> Fault:
        """Stop a broker's process (SIGSTOP); it goes on after `for_s`, or when the fault is cleared."""
        return self.add(PAUSE, broker=broker, for_s=for_s)

    def kill(self, broker: Node) -> Fault:
        """Kill a broker's process (SIGKILL); its supervisor starts it again, unless it was told not to."""
        return self.add(KILL, broker=broker)

    def _begin(self, fields: dict[str, Any], takers: Sequence[int], brokers: dict[int, Control]) -> Fault:
        paused = self._pauses()
        for broker_id in takers:
            if broker_id in paused:
                raise LocalClusterError(
                    f"broker {broker_id} is paused. `syncline fault clear {_pause_id(broker_id)}` lets it go on."
                )
        rows: dict[int, dict[str, Any]] = {}
        is_link = fields["kind"] in LINK_KINDS
        try:
            for broker_id in takers:
                # A link has two ends and is one fault.
                answer = brokers[broker_id].call("faults.add", **fields, journal=not (is_link and rows))
                rows[broker_id] = answer["fault"]
        except ControlError:
            for broker_id in rows:
                with contextlib.suppress(ControlError):
                    brokers[broker_id].call("faults.clear", id=fields["id"])
            raise
        return Fault(fields["id"], fields["kind"], rows, self)

    # Looking and ending.

    def all(self) -> list[Fault]:
        """Return all faults that the brokers know, those that are over, too; and who is paused."""
        rows: dict[str, dict[int, dict[str, Any]]] = {}
        paused = self._pauses()
        self.silent = {}
        for broker_id, control in self._controls().items():
            if broker_id in paused:
                continue
            try:
                answer = control.call("faults.list", timeout_s=LOOK_TIMEOUT_S)
            except ControlError as error:
                self.silent[broker_id] = str(error)
                continue
            for row in answer["faults"]:
                rows.setdefault(row["id"], {})[broker_id] = row
        found = [Fault(fault_id, next(iter(each.values()))["kind"], each, self) for fault_id, each in rows.items()]
        return found + [self._pause_fault(broker_id, state) for broker_id, state in paused.items()]

    def clear(self, fault_id: str | None = None) -> list[Fault]:
        """End one fault, or all; return what they were. Raises `NoSuchFault`."""
        cleared = [
            self._resume(broker_id, state)
            for broker_id, state in self._pauses().items()
            if fault_id in (None, _pause_id(broker_id))
        ]
        if fault_id is not None and cleared:
            return cleared
        rows: dict[str, dict[int, dict[str, Any]]] = {}
        silent: dict[int, str] = {}
        for broker_id, control in self._controls().items():
            try:
                answer = control.call("faults.list", timeout_s=LOOK_TIMEOUT_S)
                if fault_id is not None and all(row["id"] != fault_id for row in answer["faults"]):
                    continue
                answer = control.call("faults.clear", id=fault_id, timeout_s=LOOK_TIMEOUT_S)
            except ControlError as error:
                silent[broker_id] = str(error)
                continue
            for row in answer["cleared"]:
                rows.setdefault(row["id"], {})[broker_id] = row
        self.silent = silent
        found = [Fault(each_id, next(iter(each.values()))["kind"], each, self) for each_id, each in rows.items()]
        if fault_id is not None and not found:
            more = f" {' '.join(silent.values())}" if silent else ""
            raise NoSuchFault(f"there is no fault {fault_id!r}: `syncline fault list` shows those that are.{more}")
        return cleared + found

    # Signals.

    def _pause(self, broker_id: int, for_s: float | None) -> Fault:
        pid = self._pid(broker_id)
        if state_of(pid) == "paused":
            raise LocalClusterError(f"broker {broker_id} (process {pid}) is paused already.")
        note = f"SIGSTOP{f' for {for_s:g} s' if for_s is not None else ''}"
        is_recorded = self._record(PAUSE, broker_id, "begin", note)
        token = secrets.token_hex(8)
        until_ms = None if for_s is None else time.time_ns() // 1_000_000 + round(for_s * 1_000)
        state = {"pid": pid, "token": token, "until_ms": until_ms}
        os.kill(pid, signal.SIGSTOP)
        self._await_state(pid, "paused")
        self._pause_file(broker_id).write_text(json.dumps(state))
        if for_s is not None:
            # A process of its own: the pause is to end also if whoever began it has gone.
            command = [sys.executable, "-m", __name__, str(self.directory), str(broker_id), token, f"{for_s:.3f}"]
            with open(os.devnull, "r+b") as null:  # noqa: PTH123 - a device
                subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
        fault = self._pause_fault(broker_id, state)
        fault.is_recorded = is_recorded
        return fault

    def _kill(self, broker_id: int) -> Fault:
        pid = self._pid(broker_id)
        is_recorded = self._record(KILL, broker_id, "begin", "SIGKILL")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._await_state(pid, "dead")
        self._record(KILL, broker_id, "end", "its process is gone")
        row = {"id": f"{KILL}-{broker_id}", "kind": KILL, "state": "over", "hits": 1, "seen": 1, "trigger": "once"}
        return Fault(f"{KILL}-{broker_id}", KILL, {broker_id: row}, self, is_recorded)

    def _await_state(self, pid: int, state: str) -> None:
        """Wait until a signal has had its effect."""
        deadline_s = time.monotonic() + SIGNAL_TIMEOUT_S
        while (now := state_of(pid)) not in {state, "dead"}:
            if time.monotonic() > deadline_s:
                raise LocalClusterError(f"process {pid} is {now} after a signal that should have made it {state}.")
            time.sleep(0.001)

    def resume_when_due(self, broker_id: int, token: str, after_s: float) -> None:
        """End a pause when its time is over; return sooner when it is over otherwise, or the process is gone."""
        due_s = time.monotonic() + after_s
        while (state := self._pauses().get(broker_id)) is not None and state.get("token") == token:
            left_s = due_s - time.monotonic()
            if left_s <= 0:
                self._resume(broker_id, state)
                return
            time.sleep(min(left_s, LOOK_AGAIN_S))

    def _resume(self, broker_id: int, state: dict[str, Any]) -> Fault:
        self._pause_file(broker_id).unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(state["pid"]), signal.SIGCONT)
        self._record(PAUSE, broker_id, "end", "SIGCONT")
        fault = self._pause_fault(broker_id, state)
        fault.rows[broker_id] |= {"state": "over", "left_ms": None}
        return fault

    def _pauses(self) -> dict[int, dict[str, Any]]:
        """Return the brokers whose processes are paused; by somebody else, too."""
        running = self._running()
        paused: dict[int, dict[str, Any]] = {}
        for broker_id, pid in sorted(running.broker_pids.items()):
            if state_of(pid) != "paused":
                self._pause_file(broker_id).unlink(missing_ok=True)
            else:
                paused[broker_id] = {"pid": pid, "token": None, "until_ms": None}
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    state = json.loads(self._pause_file(broker_id).read_text())
                    if state.get("pid") == pid:
                        paused[broker_id] = state
        return paused

    def _pause_fault(self, broker_id: int, state: dict[str, Any]) -> Fault:
        until_ms = state.get("until_ms")
        row = {
            "id": _pause_id(broker_id),
            "kind": PAUSE,
            "state": "active",
            "hits": 1,
            "seen": 1,
            "trigger": "always",
            "left_ms": None if until_ms is None else max(0, until_ms - time.time_ns() // 1_000_000),
        }
        return Fault(_pause_id(broker_id), PAUSE, {broker_id: row}, self)

    def _pause_file(self, broker_id: int) -> Path:
        return self.directory / f"paused-{broker_id}.json"

    def _record(self, kind: str, broker_id: int, phase: str, note: str) -> bool:
        """Have the journal say what was done to a broker's process; return whether some broker took it."""
        ts_ms = time.time_ns() // 1_000_000
        # The victim itself only if nobody else is there.
        for _, control in sorted(self._controls().items(), key=lambda item: item[0] == broker_id):
            with contextlib.suppress(ControlError):
                control.call(
                    "faults.record",
                    timeout_s=LOOK_TIMEOUT_S,
                    kind=kind,
                    target=f"broker-{broker_id}",
                    phase=phase,
                    note=note,
                    ts_ms=ts_ms,
                )
                return True
        return False

    # Who.

    def _links(
        self,
        kind: str,
        sources: Sequence[Node],
        targets: Sequence[Node],
        brokers: dict[int, Control],
        place: tuple[str | None, int | None],
    ) -> list[tuple[int, int]]:
        if not sources or not targets:
            raise LocalClusterError(f"{kind} takes the two ends of the link, from and to.")
        links: dict[tuple[int, int], None] = {}
        ends = self._resolve(targets, brokers, place)
        for source in self._resolve(sources, brokers, place):
            for target in ends:
                if source != target:
                    links[source, target] = None
                    if kind != LINK_CUT_ONE_WAY:
                        links[target, source] = None
        if not links:
            raise LocalClusterError(f"both ends of the link are broker {ends[0]}: name two brokers.")
        return list(links)

    def _resolve(
        self, nodes: Sequence[Node], brokers: dict[int, Control], place: tuple[str | None, int | None]
    ) -> list[int]:
        """Return the numbers of the brokers that are meant, each once."""
        found: dict[int, None] = {}
        for node in nodes:
            for broker_id in self._resolve_one(node, brokers, place):
                if broker_id not in brokers:
                    self._pid(broker_id)
                    raise LocalClusterError(f"broker {broker_id} is just being started; try again in a moment.")
                found[broker_id] = None
        return list(found)

    def _resolve_one(
        self, node: Node, brokers: dict[int, Control], place: tuple[str | None, int | None]
    ) -> Sequence[int]:
        name = str(node)
        if name.isdecimal():
            return (int(name),)
        if name == "all":
            return tuple(brokers)
        if name == "controller":
            return (self._controller(brokers),)
        if name in _OF_A_PARTITION:
            topic, partition = place
            if topic is None or partition is None:
                raise LocalClusterError(f"{name!r} is of a partition: name it with --partition TOPIC:NUMBER.")
            record = self._ask_somebody(brokers, "broker.partition", topic=topic, partition=partition)
            leader = int(record["leader"])
            followers = [int(replica) for replica in record["replicas"] if replica != leader]
            chosen = [leader] if name == "leader" else followers[:1] if name == "follower" else followers
            if not chosen or chosen == [-1]:
                raise LocalClusterError(f"{topic}:{partition} has no {name} now.")
            return chosen
        raise LocalClusterError(f"a node is {NODES}, not {name!r}.")

    def _controller(self, brokers: dict[int, Control]) -> int:
        """Return who holds the lease: of those who think so, the one with the newest."""
        leases: dict[int, int] = {}
        for broker_id, control in brokers.items():
            with contextlib.suppress(ControlError):
                answer = control.call("broker.describe", timeout_s=LOOK_TIMEOUT_S)
                if answer["is_controller"]:
                    leases[int(answer["lease_epoch"])] = broker_id
        if not leases:
            raise LocalClusterError("no broker is the controller now; try again in a moment.")
        return leases[max(leases)]

    def _ask_somebody(self, brokers: dict[int, Control], verb: str, **fields: Any) -> dict[str, Any]:
        refusal: ControlError | None = None
        for control in brokers.values():
            try:
                return control.call(verb, timeout_s=LOOK_TIMEOUT_S, **fields)
            except ControlError as error:
                refusal = error
        raise refusal or ControlError(f"no broker of the cluster in {self.directory} runs now.")

    def _check_options(self, kind: str, given: dict[str, Any]) -> None:
        """Say which option a kind of fault lacks, or has no use for."""
        usable = {"topic", "partition"}
        nodes = {str(node) for name in ("broker", "source", "target") for node in _nodes(given[name])}
        if kind in (*LINK_KINDS, PAUSE, KILL) and not nodes & _OF_A_PARTITION:
            usable = set()
        if kind != KILL:
            usable |= {"for_s"}
        if kind not in (PAUSE, KILL):
            usable |= {"fault_id"}
        if kind in LINK_KINDS:
            usable |= {"source", "target"}
        else:
            usable |= {"broker"}
        if kind in DISK_KINDS:
            usable |= {"direction", "trigger", "errno"}
        if kind in API_KINDS:
            usable |= {"api", "client_id", "listener", "trigger"}
        if kind == API_ERROR:
            usable |= {"error"}
        if kind in DELAYED_KINDS:
            usable |= {"delay_s"}
        useless = [name for name, value in given.items() if value is not None and name not in usable]
        if useless:
            words = ", ".join(_WORDS.get(name, name) for name in useless)
            raise LocalClusterError(f"{kind} has no use for {words}.")
        for name, is_needed in (
            ("delay_s", kind in DELAYED_KINDS),
            ("error", kind == API_ERROR),
            ("api", kind == API_ERROR or (kind in API_KINDS and given["client_id"] is None and given["topic"] is None)),
            ("broker", kind in (PAUSE, KILL)),
        ):
            if is_needed and not given[name]:
                raise LocalClusterError(f"{kind} needs {_WORDS.get(name, name)}.")

    def _controls(self) -> dict[int, Control]:
        """Return the control API of every broker that has a process."""
        found = controls(self.directory)
        pids = self._running().broker_pids
        return {broker: control for broker, control in found.items() if state_of(pids.get(broker, 0)) != "dead"}

    def _running(self) -> RunningCluster:
        running = self._layout.running()
        if running is None:
            raise ControlError(
                f"no cluster is running in {self.directory}. Start one with `syncline up`, or name its data directory."
            )
        return running

    def _pid(self, broker_id: int) -> int:
        pids = self._running().broker_pids
        if broker_id not in pids:
            known = ", ".join(map(str, sorted(pids)))
            raise LocalClusterError(f"there is no broker {broker_id} in {self.directory}: it has {known}.")
        pid = pids[broker_id]
        if state_of(pid) == "dead":
            raise LocalClusterError(f"broker {broker_id} (process {pid}) does not run now.")
        return pid


# What options are called where people type them.
_WORDS: Final = {
    "source": "--from",
    "target": "--to",
    "broker": "--broker",
    "topic": "--topic",
    "partition": "--partition",
    "direction": "--direction",
    "delay_s": "--delay",
    "errno": "--errno",
    "api": "--api",
    "client_id": "--client",
    "listener": "--listener",
    "error": "--error",
    "trigger": "--trigger",
    "for_s": "--for",
    "fault_id": "--id",
}
# Brokers that are named by what they are for a partition.
_OF_A_PARTITION: Final = frozenset({"leader", "follower", "followers"})
_PAUSE_ID: Final = re.compile(rf"{PAUSE}-\d+")


def _pause_id(broker_id: int) -> str:
    return f"{PAUSE}-{broker_id}"


def _nodes(value: Node | Sequence[Node] | None) -> Sequence[Node]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int | str) else value


def _list(value: str | Sequence[str] | None) -> list[str] | None:
    if value is None:
        return None
    return [value] if isinstance(value, str) else list(value)


if __name__ == "__main__":
    where, broker, its_token, seconds = sys.argv[1:]
    # Without a cluster nobody is paused any more.
    with contextlib.suppress(LocalClusterError):
        Faults(where).resume_when_due(int(broker), its_token, float(seconds))
