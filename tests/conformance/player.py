"""Plays sequences against a cluster: prepares it, sends each step, returns the normalised answers.

Preparation makes the topics of all sequences in a few large requests and waits until every partition is led, every
group coordinator has loaded and every broker hands out producer ids. That keeps the sequences themselves free of
retries, which would hide wrong answers.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.kio_tree import decode_response, encode_request, known_part
from tests.conformance.normalise import Normaliser
from tests.conformance.steps import Action, Departure, Name, Pause, Receive, Sequence, Step, Target, Topic
from tests.conformance.values import Scope, described
from tests.conformance.wire_client import Answer, Closed, Connection, Silent, request_frame

READY_S = 60.0
SETTLE_S = 10.0
POLL_S = 0.02
TOPICS_PER_REQUEST = 100
COORDINATOR_PARTITIONS = 50
WAITED_SHARE = 0.9
METADATA, CREATE_TOPICS, DELETE_TOPICS, LIST_OFFSETS = 3, 19, 20, 2
FIND_COORDINATOR, OFFSET_FETCH, INIT_PRODUCER_ID = 10, 9, 22
Outcome = Any


@dataclass
class Cluster:
    """A running cluster, as its clients see it. `run` makes names unique when a cluster is used more than once."""

    bootstrap: list[tuple[str, int]]
    run: str = "c"
    brokers: list[tuple[int, str, int]] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)

    def ask(self, rank: int, key: int, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Return a broker's answer on the preparation's own connection."""
        connection = self.connections.get(rank)
        if connection is None:
            connection = self.connections[rank] = Connection(*self.address(rank))
        frame = request_frame(
            key, version, connection.next_correlation_id(), encode_request(key, version, body), client_id="prepare"
        )
        connection.send(frame)
        answer = connection.receive(key, version, 30_000)
        assert isinstance(answer, Answer), f"preparing: {answer} to {key} v{version}"
        return decode_response(key, version, answer.body)

    def address(self, rank: int) -> tuple[str, int]:
        """Return where a broker listens."""
        return self.brokers[rank][1:] if self.brokers else self.bootstrap[rank]

    def await_departure(self, rank: int) -> None:
        """Wait until every other broker knows that this one has gone, and that others lead its partitions."""
        gone = self.brokers[rank][0]

        def is_gone(from_rank: int) -> bool:
            answer = self.ask(from_rank, METADATA, 9, {"topics": None, "allow_auto_topic_creation": False})
            rows = [row for topic in answer["topics"] for row in topic["partitions"]]
            return gone not in [row["node_id"] for row in answer["brokers"]] and not any(
                gone in (row["leader_id"], *row["isr_nodes"]) for row in rows if len(row["replica_nodes"]) > 1
            )

        for other in range(len(self.brokers)):
            if other != rank:
                until(lambda other=other: is_gone(other), f"broker {other} knows that broker {rank} has gone")

    def close(self) -> None:
        """Close the preparation's connections."""
        for connection in self.connections.values():
            connection.close()

    def prefix(self, sequence: Sequence) -> str:
        """Return what stands before the names of a sequence."""
        return f"{self.run}-{sequence.name.replace('.', '-').replace('_', '-')}-"

    def find_brokers(self, count: int) -> None:
        """Wait until `count` brokers are known."""

        def look() -> bool:
            rows = self.ask(0, METADATA, 9, {"topics": []})["brokers"]
            if len(rows) < count:
                return False
            self.brokers = sorted((row["node_id"], row["host"], row["port"]) for row in rows)
            return True

        until(look, "all brokers are registered")
        self.close()
        self.connections.clear()

    def prepare(self, sequences: Iterable[Sequence]) -> None:
        """Make the topics of these sequences and wait until the cluster is ready for them."""
        self.make_topics(sequences)
        for rank in range(len(self.brokers)):
            until(
                lambda rank=rank: self.ask(rank, INIT_PRODUCER_ID, 1, {"transactional_id": None})["error_code"] == 0,
                f"broker {rank} hands out producer ids",
            )
        self._load_coordinators()

    def make_topics(self, sequences: Iterable[Sequence]) -> None:
        """Make the topics of these sequences and wait until every broker knows them and leads its share."""
        wanted = {
            self.prefix(sequence) + short: topic for sequence in sequences for short, topic in sequence.topics.items()
        }
        names = list(wanted)
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            self._create({name: wanted[name] for name in names[start : start + TOPICS_PER_REQUEST]})
        for rank in range(len(self.brokers)):
            until(lambda rank=rank: self._knows(rank, names), f"broker {rank} knows all topics")
            until(lambda rank=rank: self._leads(rank, wanted), f"broker {rank} leads its partitions")

    def remove_topics(self, sequence: Sequence) -> None:
        """Delete all topics of this sequence, so that a cluster that plays many does not fill with them."""
        answer = self.ask(0, METADATA, 9, {"topics": None, "allow_auto_topic_creation": False})
        names = [row["name"] for row in answer["topics"] if row["name"].startswith(self.prefix(sequence))]
        self.ask(0, DELETE_TOPICS, 5, {"topic_names": names, "timeout": 30_000})

    def _create(self, topics: dict[str, Topic]) -> None:
        rows = [
            {
                "name": name,
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [
                    {"partition_index": index, "broker_ids": [self.brokers[rank][0] for rank in replicas]}
                    for index, replicas in enumerate(topic.replicas)
                ],
                # Records of the sequences are dated in the past; they must not expire.
                "configs": [
                    {"name": key, "value": value} for key, value in {"retention.ms": "-1", **topic.configs}.items()
                ],
            }
            for name, topic in topics.items()
        ]
        answer = self.ask(0, CREATE_TOPICS, 5, {"topics": rows, "timeout": 30_000})
        refused = [row for row in answer["topics"] if row["error_code"]]
        assert not refused, f"topics were not created: {refused[:3]}"

    def _knows(self, rank: int, names: list[str]) -> bool:
        answer = self.ask(rank, METADATA, 12, {"topics": [{"topic_id": None, "name": name} for name in names]})
        self.topic_ids.update({row["name"]: row["topic_id"] for row in answer["topics"] if row["topic_id"]})
        return all(
            row["error_code"] == 0 and all(p["error_code"] == 0 for p in row["partitions"]) for row in answer["topics"]
        )

    def _leads(self, rank: int, topics: dict[str, Topic]) -> bool:
        rows = [
            {"name": name, "partitions": [{"partition_index": index, "timestamp": -1} for index in led]}
            for name, topic in topics.items()
            if (led := [index for index, replicas in enumerate(topic.replicas) if replicas[0] == rank])
        ]
        answer = self.ask(rank, LIST_OFFSETS, 1, {"replica_id": -1, "topics": rows})
        return all(p["error_code"] == 0 for row in answer["topics"] for p in row["partitions"])

    def _load_coordinators(self) -> None:
        """Ask for an offset in every partition of the offsets topic, so that no later answer is about loading."""
        found: dict[int, str] = {}
        number = 0
        while len(found) < COORDINATOR_PARTITIONS:
            name = f"{self.run}-warm-{number}"
            found.setdefault(abs(java_hash(name)) % COORDINATOR_PARTITIONS, name)
            number += 1
        for name in found.values():
            until(lambda name=name: self._coordinates(name), f"the coordinator of {name} has loaded")

    def _coordinates(self, group: str) -> bool:
        answer = self.ask(0, FIND_COORDINATOR, 1, {"key": group, "key_type": 0})
        if answer["error_code"]:
            return False
        rank = [node for node, _, _ in self.brokers].index(answer["node_id"])
        fetched = self.ask(rank, OFFSET_FETCH, 2, {"group_id": group, "topics": []})
        return bool(fetched["error_code"] == 0)

    def coordinator_rank(self, group: str) -> int:
        """Return which broker coordinates a group."""
        answer = self.ask(0, FIND_COORDINATOR, 1, {"key": group, "key_type": 0})
        return [node for node, _, _ in self.brokers].index(answer["node_id"])

    def topic_id(self, name: str) -> str:
        """Return the id of a topic."""
        if name not in self.topic_ids:
            answer = self.ask(0, METADATA, 12, {"topics": [{"topic_id": None, "name": name}]})
            self.topic_ids[name] = answer["topics"][0]["topic_id"]
        return self.topic_ids[name]

    def replicas(self, name: str, partition: int) -> list[int]:
        """Return the ranks of a partition's replicas, the leader first; waits until it has one."""
        found: list[int] = []

        def look() -> bool:
            topic = self.ask(0, METADATA, 9, {"topics": [{"name": name}], "allow_auto_topic_creation": False})[
                "topics"
            ][0]
            rows = [row for row in topic["partitions"] if row["partition_index"] == partition and row["leader_id"] >= 0]
            ids = [node for node, _, _ in self.brokers]
            for row in rows:
                others = [node for node in row["replica_nodes"] if node != row["leader_id"]]
                found[:] = [ids.index(node) for node in [row["leader_id"], *others]]
            return bool(rows)

        until(look, f"{name}-{partition} has a leader", SETTLE_S)
        return found


class Running:
    """A sequence on its way: what comes before the departure of a broker, and the rest."""

    def __init__(self, cluster: Cluster, sequence: Sequence) -> None:
        actions = sequence.actions
        at_ = next((index for index, each in enumerate(actions) if isinstance(each, Departure)), 0)
        self._player = _Player(cluster, sequence)
        self._before, self._after = deque(actions[:at_]), actions[at_:]
        self._rows: list[dict[str, Any]] = []

    def begin(self) -> bool:
        """Do the next thing that comes before the departure; return whether there was any."""
        if not self._before:
            return False
        self._perform([self._before.popleft()])
        return True

    def finish(self) -> list[dict[str, Any]]:
        """Do the rest; return the recorded form of the sequence: each request with its normalised answer."""
        try:
            self._perform(self._after)
        finally:
            self._player.close()
        return self._rows

    def _perform(self, actions: Iterable[Action]) -> None:
        if self._rows and "stopped" in self._rows[-1]:
            return
        try:
            for action in actions:
                if not isinstance(action, Departure) and (row := self._player.perform(action)) is not None:
                    self._rows.append(row)
        except (AssertionError, LookupError, TypeError, OSError) as error:
            # A later step needs what an earlier answer did not have; the answers so far say why.
            self._rows.append({"stopped": f"{type(error).__name__}: {error}"})


class _Player:
    """The connections, values and symbols of one running sequence."""

    def __init__(self, cluster: Cluster, sequence: Sequence) -> None:
        self.cluster, self.sequence = cluster, sequence
        prefix = cluster.prefix(sequence)
        self.scope = Scope(prefix, [node for node, _, _ in cluster.brokers], cluster.topic_id)
        self.normaliser = Normaliser(prefix, cluster.brokers)
        self.connections: dict[tuple[str, int], Connection] = {}
        self.held: dict[tuple[str, int], list[tuple[Step, float]]] = {}
        self.ranks: dict[Target, int] = {}

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    def perform(self, action: Step | Receive | Pause) -> dict[str, Any] | None:
        if isinstance(action, Pause):
            time.sleep(action.ms / 1000)
            return None
        if isinstance(action, Receive):
            place = (action.connection, self._rank(action.to))
            step, began = self.held[place].pop(0)
            outcome = self._receive(place, step, began, action)
            return {"receive": f"{action.connection} from {action.to.described()}", "reply": outcome}
        outcome = self._send(action)
        return None if action.quiet else {"request": describe_step(action), "reply": outcome}

    def _send(self, step: Step) -> Outcome:
        deadline = time.monotonic() + SETTLE_S
        while True:
            place = (step.connection, self._rank(step.to))
            began = time.monotonic()
            self._connection(place).send(self._frame(step, self._connection(place)))
            if step.hold:
                self.held.setdefault(place, []).append((step, began))
                return "held"
            outcome = self._receive(
                place, step, began, step, final=lambda tree: _settled(step, tree) or time.monotonic() > deadline
            )
            if outcome is not None:
                return outcome
            time.sleep(POLL_S)

    def _receive(
        self, place: tuple[str, int], step: Step, began: float, wanted: Step | Receive, final: Any = None
    ) -> Outcome:
        version = step.version if step.answer_version is None else step.answer_version
        answer = self._connection(place).receive(step.key, version, wanted.answer_ms)
        elapsed_ms = (time.monotonic() - began) * 1000
        if isinstance(answer, Closed | Silent):
            self.connections.pop(place).close()
            return "closed" if isinstance(answer, Closed) else "silent"
        try:
            tree = decode_response(step.key, version, answer.body)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the bytes, it is the answer of this step
            return f"undecodable: {type(error).__name__}: {error}"
        if final is not None and not final(tree):
            return None
        for name, path in wanted.save.items():
            self.scope.saved[name] = at(tree, path)
        normal = self.normaliser.answer(tree, own_rows=step.own_rows, in_order=step.in_order)
        if wanted.waits_ms is not None:
            return {"waited": elapsed_ms >= WAITED_SHARE * wanted.waits_ms, **normal}
        return normal

    def _frame(self, step: Step, connection: Connection) -> bytes:
        if step.raw is not None:
            connection.next_correlation_id()
            return step.raw
        body = self.scope.resolve(step.body)
        encoded = body if isinstance(body, bytes) else encode_request(step.key, step.version, body or {})
        return request_frame(
            step.key,
            step.version,
            connection.next_correlation_id(),
            encoded + step.suffix,
            client_id=step.client_id,
            header_version=step.header_version,
        )

    def _connection(self, place: tuple[str, int]) -> Connection:
        if place not in self.connections:
            self.connections[place] = Connection(*self.cluster.address(place[1]))
        return self.connections[place]

    def _rank(self, target: Target) -> int:
        # Asked once: a held answer must be looked for where its request went, even if the topic is gone by then.
        if target not in self.ranks:
            self.ranks[target] = self._find_rank(target)
        return self.ranks[target]

    def _find_rank(self, target: Target) -> int:
        if target.kind == "broker":
            return target.index
        subject = self.scope.resolve(Name(target.subject) if isinstance(target.subject, str) else target.subject)
        if target.kind in {"leader", "follower"}:
            declared = self.sequence.topics.get(target.subject) if isinstance(target.subject, str) else None
            if declared is not None and target.index < len(declared.replicas):
                replicas = list(declared.replicas[target.index])
            else:
                replicas = self.cluster.replicas(subject, target.index)
            others = [*replicas[1:], *(rank for rank in range(len(self.cluster.brokers)) if rank not in replicas)]
            return replicas[0] if target.kind == "leader" else others[0]
        rank = self.cluster.coordinator_rank(subject)
        return rank if target.kind == "coordinator" else (rank + 1) % len(self.cluster.brokers)


def describe_step(step: Step) -> dict[str, Any]:
    """Return the recorded form of a request."""
    row: dict[str, Any] = {"to": step.to.described(), "key": step.key, "version": step.version}
    if step.connection != "main":
        row["connection"] = step.connection
    if step.header_version is not None:
        row["header_version"] = step.header_version
    if step.client_id != "conformance":
        row["client_id"] = step.client_id
    if step.suffix:
        row["suffix"] = step.suffix.hex()
    if step.raw is not None:
        row["raw"] = described(step.raw)
    elif isinstance(step.body, dict):
        row["body"] = described(known_part(step.key, step.version, step.body))
    else:
        row["body"] = described(step.body)
    return row


def at(tree: Any, path: str) -> Any:
    """Return what `path` (names and indexes, joined by dots) leads to."""
    for part in path.split("."):
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    return tree


def _settled(step: Step, tree: Any) -> bool:
    try:
        return all(at(tree, path) == value for path, value in step.settle.items())
    except (IndexError, KeyError):
        return False


def until(look: Any, what: str, within_s: float = READY_S) -> None:
    """Poll `look` until it holds."""
    deadline = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(POLL_S)


def java_hash(text: str) -> int:
    """Return Java's hash of an ASCII string, which decides on the coordinator of a group."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
