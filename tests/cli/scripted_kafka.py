"""A cluster that speaks the requests of `reassign` and `throttle`, for tests of what these commands ask for.

It keeps replicas, moves, configurations and sizes in memory, and notes each request that changes something, in order.
Copies progress only when a test says so. With `owns_throttles` it answers as Syncline does, otherwise as Apache Kafka.
"""

import contextlib
import io
import socket
import socketserver
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey, response_header_version
from syncline.wire.codec import decode_request, encode_response, response_type
from syncline.wire.entities import build
from syncline.wire.frames import frame_response
from syncline.wire.request_header import parse_request_header
from tests.cli.terminal import call, refusal

VERSIONS = {
    ApiKey.METADATA: (0, 13),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
}
TOPIC, BROKER = 2, 4
NONE = {"error_code": 0, "error_message": None}


@dataclass
class ScriptedKafka:
    """The state of the cluster."""

    replicas: dict[TopicPartition, tuple[int, ...]]
    brokers: tuple[int, ...] = (1, 2, 3, 4, 5)
    owns_throttles: bool = False
    racks: dict[int, str] = field(default_factory=dict)
    moving: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    original: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    moves: dict[str, dict[str, Any]] = field(default_factory=dict)
    move_of: dict[TopicPartition, str] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    sizes: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    usable_bytes: dict[int, int] = field(default_factory=dict)
    # For how long each broker says that it has moved nothing; Apache Kafka's say nothing.
    nothing_moved_ms: int | None = None
    # Topics that are in the metadata still, and deleted when their configurations are asked for.
    deleted: set[str] = field(default_factory=set)
    # Brokers that take requests for sizes, and answer none.
    silent: set[int] = field(default_factory=set)
    on_silence: Callable[["ScriptedKafka"], None] | None = None
    # Brokers that answer what they were asked when they are no longer among these.
    paused: set[int] = field(default_factory=set)
    refused: dict[TopicPartition, tuple[ErrorCode, str]] = field(default_factory=dict)
    # Whether brokers tell the configurations of others, as brokers of Syncline may.
    describes_others: bool = False
    # The error of a request for moves as a whole.
    refuses_moves: ErrorCode = ErrorCode.NONE
    # So many answers about metadata after a move ended do not know that: brokers apply later what the controller knows.
    answers_late: int = 0
    late: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    # Future directories of replicas, with the current one.
    log_dirs: dict[tuple[TopicPartition, int], tuple[str, str]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    ports: dict[int, int] = field(default_factory=dict)
    versions: dict[ApiKey, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    connections: list[Any] = field(default_factory=list)
    on_list: Callable[["ScriptedKafka"], None] | None = None
    # Whether a broker answers others while `on_list` runs, as brokers do that wait for the controller.
    lets_others_in: bool = False
    leaderless: set[TopicPartition] = field(default_factory=set)
    # The groups that each broker coordinates, and brokers that are still loading theirs.
    groups: dict[int, dict[str, str]] = field(default_factory=dict)
    # The protocol types of groups that do not consume.
    protocols: dict[str, str] = field(default_factory=dict)
    loading: set[int] = field(default_factory=set)

    @property
    def bootstrap(self) -> str:
        """The address of one broker."""
        return f"127.0.0.1:{self.ports[self.brokers[0]]}"

    @property
    def registered(self) -> set[int]:
        """The brokers that run, and those that are down and have replicas."""
        return {*self.brokers, *(broker for replicas in self.replicas.values() for broker in replicas)}

    def settings(self, name: str) -> dict[str, str]:
        """The values of this configuration, by topic or broker."""
        return {resource: values[name] for (_, resource), values in self.configs.items() if name in values}

    def finish(self, *keys: TopicPartition) -> None:
        """Let moves complete, all by default."""
        for key in keys or tuple(self.moving):
            _, removing = self.moving.pop(key)
            self.late[key] = self.replicas[key]
            self.replicas[key] = tuple(each for each in self.replicas[key] if each not in removing)
            self._forget(key)

    def hang_up(self) -> None:
        """Close all connections, as brokers do that restart."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def answer(self, broker: int, key: ApiKey, version: int, body: memoryview) -> dict[str, Any]:
        """The fields of the answer to a request."""
        if key == ApiKey.API_VERSIONS:
            rows = [
                {"api_key": int(each), "min_version": a, "max_version": b} for each, (a, b) in self.versions.items()
            ]
            return {"error_code": 0, "api_keys": rows, "throttle_time": 0}
        return getattr(self, f"_{key.name.lower()}")(broker, decode_request(key, version, body))

    def _metadata(self, _broker: int, asked: Any) -> dict[str, Any]:
        wanted = None if asked.topics is None else {str(each.name) for each in asked.topics}
        topics: dict[str, list[dict[str, Any]]] = {}
        known = self.replicas | (self.late if self.answers_late else {})
        self.answers_late = max(self.answers_late - bool(self.late), 0)
        for key, replicas in known.items():
            if wanted is None or key.topic in wanted:
                adding = self.moving.get(key, ((), ()))[0]
                in_sync = tuple(each for each in replicas if each not in adding)
                topics.setdefault(key.topic, []).append(
                    {
                        "error_code": 0,
                        "partition_index": key.partition,
                        "leader_id": -1 if key in self.leaderless else in_sync[0],
                        "replica_nodes": replicas,
                        "isr_nodes": in_sync,
                        "offline_replicas": (),
                    }
                )
        return {
            "throttle_time": 0,
            "brokers": [
                {"node_id": each, "host": "127.0.0.1", "port": self.ports[each], "rack": self.racks.get(each)}
                for each in self.brokers
            ],
            "cluster_id": "scripted",
            "controller_id": self.brokers[0],
            "topics": [
                {"error_code": 0, "name": name, "topic_id": None, "is_internal": False, "partitions": rows}
                for name, rows in topics.items()
            ],
        }

    def _list_partition_reassignments(self, _broker: int, _asked: Any) -> dict[str, Any]:
        if self.on_list is not None:
            self.on_list(self)
        topics: dict[str, list[dict[str, Any]]] = {}
        for key, (adding, removing) in self.moving.items():
            row = {
                "partition_index": key.partition,
                "replicas": self.replicas[key],
                "adding_replicas": adding,
                "removing_replicas": removing,
            }
            own = {"move_id": self.move_of.get(key, ""), "original": self.original[key]} if self.owns_throttles else {}
            topics.setdefault(key.topic, []).append(row | own)
        rows = [{"name": name, "partitions": rows} for name, rows in topics.items()]
        own = {"moves": list(self.moves.values())} if self.owns_throttles else {}
        return {"throttle_time": 0, **NONE, "topics": rows, **own}

    def _list_groups(self, broker: int, _asked: Any) -> dict[str, Any]:
        if broker in self.loading:
            return {"throttle_time": 0, "error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups": ()}
        rows = [
            {
                "group_id": name,
                "protocol_type": self.protocols.get(name, "consumer"),
                "group_state": state,
                "group_type": "classic",
            }
            for name, state in self.groups.get(broker, {}).items()
        ]
        return {"throttle_time": 0, "error_code": 0, "groups": rows}

    def _find_coordinator(self, _broker: int, asked: Any) -> dict[str, Any]:
        coordinator = next(broker for broker, groups in self.groups.items() if asked.key in groups)
        where = {"node_id": coordinator, "host": "127.0.0.1", "port": self.ports[coordinator]}
        return {"throttle_time": 0, **NONE, **where}

    def _alter_partition_reassignments(self, _broker: int, asked: Any) -> dict[str, Any]:
        wanted = {
            TopicPartition(str(topic.name), int(each.partition_index)): each.replicas
            for topic in asked.topics
            for each in topic.partitions
        }
        is_move = self.owns_throttles and (asked.name or asked.move_id or asked.throttle != -1)
        owner = self._owner(wanted) if is_move else ""
        move_id = getattr(asked, "move_id", "") or owner or (f"m-{len(self.moves) + 1}" if is_move else "")
        if self.refuses_moves:
            refusal = {"error_code": self.refuses_moves, "error_message": None}
            return {"throttle_time": 0, **refusal, "responses": (), "move_id": ""}
        refused = {key: self.refused[key] for key in wanted if key in self.refused}
        names = ("throttle", "control", "deadline_ms", "impact_percent", "name")
        kept: dict[str, Any] = {}
        if owner and asked.throttle == -1:
            # A repeated request without a throttle keeps it, and what controls it unless another goal is given.
            kept = {name: self.moves[owner][name] for name in (("throttle",) if asked.control else names)}
        if not (is_move and refused):
            for key in [key for key in wanted if key not in refused]:
                self._alter(key, wanted[key], move_id)
            if is_move:
                said = {name: getattr(asked, name) for name in names} | kept
                self.moves[move_id] = {"move_id": move_id, **said, "started_ms": 0}
                self.changes.append(f"move {move_id} at {said['throttle']} {said['control']}".rstrip())
        responses: dict[str, list[dict[str, Any]]] = {}
        for key in wanted:
            is_held_up = is_move and refused
            others = (ErrorCode.OPERATION_NOT_ATTEMPTED, "another one") if is_held_up else (ErrorCode.NONE, None)
            code, message = refused.get(key, others)
            responses.setdefault(key.topic, []).append(
                {"partition_index": key.partition, "error_code": code, "error_message": message}
            )
        rows = [{"name": name, "partitions": each} for name, each in responses.items()]
        return {"throttle_time": 0, **NONE, "responses": rows, **({"move_id": move_id} if is_move else {})}

    def _owner(self, wanted: dict[TopicPartition, tuple[int, ...] | None]) -> str:
        """The move that a request repeats: that of all its partitions that have not arrived."""
        left = {key: target for key, target in wanted.items() if key in self.moving or self.replicas[key] != target}
        owners = {
            self.move_of.get(key, "") if target == self.replicas[key][: -len(self.moving[key][1]) or None] else ""
            for key, target in left.items()
            if key in self.moving
        } | {"" for key in left if key not in self.moving}
        return owners.pop() if len(owners) == 1 else ""

    def _alter(self, key: TopicPartition, target: tuple[int, ...] | None, move_id: str) -> None:
        before = self.original.get(key, self.replicas[key])
        self.changes.append(f"alter {key} to {','.join(map(str, target)) if target else 'before'}")
        self.moving.pop(key, None)
        self._forget(key)
        if target is None:
            self.replicas[key] = before
            return
        adding, removing = (tuple(sorted(set(a) - set(b))) for a, b in ((target, before), (before, target)))
        self.replicas[key] = (*target, *removing)
        if adding or removing:
            self.moving[key], self.original[key] = (adding, removing), before
            if move_id:
                self.move_of[key] = move_id

    def _forget(self, key: TopicPartition) -> None:
        self.original.pop(key, None)
        owner = self.move_of.pop(key, None)
        if owner is not None and owner not in self.move_of.values():
            self.moves.pop(owner, None)

    def _describe_log_dirs(self, broker: int, asked: Any) -> dict[str, Any]:
        keys = [TopicPartition(str(topic.topic), int(each)) for topic in asked.topics for each in topic.partitions]
        rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for key in keys:
            current, future = self.log_dirs.get((key, broker), ("/d", ""))
            for path in (current, future):
                if path and broker in self.replicas.get(key, ()):
                    row = {
                        "partition_index": key.partition,
                        "partition_size": self.sizes.get((key, broker), 0),
                        "offset_lag": 0,
                        "is_future_key": path == future,
                    }
                    rows.setdefault((path, key.topic), []).append(row)
        paths = sorted({"/d", *(path for path, _ in rows)})
        results = [
            {
                "error_code": 0,
                "log_dir": path,
                "topics": [{"name": topic, "partitions": each} for (at, topic), each in rows.items() if at == path],
                "total_bytes": 1 << 40,
                "usable_bytes": self.usable_bytes.get(broker, 1 << 40),
            }
            for path in paths
        ]
        answer = {"throttle_time": 0, "error_code": 0, "results": results}
        if self.nothing_moved_ms is not None:
            answer |= {"nothing_received_ms": self.nothing_moved_ms, "nothing_sent_ms": self.nothing_moved_ms}
        return answer

    def _alter_replica_log_dirs(self, broker: int, asked: Any) -> dict[str, Any]:
        results: dict[str, list[dict[str, Any]]] = {}
        for directory in asked.dirs:
            for topic in directory.topics:
                for index in topic.partitions:
                    key = TopicPartition(str(topic.name), int(index))
                    is_there = broker in self.replicas[key] and broker not in self.moving.get(key, ((), ()))[0]
                    code = ErrorCode.NONE if is_there else ErrorCode.REPLICA_NOT_AVAILABLE
                    if is_there:
                        current, _ = self.log_dirs.get((key, broker), ("/d", ""))
                        future = "" if directory.path == current else str(directory.path)
                        self.log_dirs[key, broker] = (current, future)
                        self.changes.append(f"log dir {key}-{broker} to {directory.path}")
                    results.setdefault(key.topic, []).append({"partition_index": key.partition, "error_code": code})
        rows = [{"topic_name": topic, "partitions": each} for topic, each in results.items()]
        return {"throttle_time": 0, "results": rows}

    def _describe_configs(self, broker: int, asked: Any) -> dict[str, Any]:
        results = []
        for each in asked.resources:
            kind, name = int(each.resource_type), str(each.resource_name)
            if kind == BROKER and name != str(broker) and not (self.describes_others and int(name) in self.registered):
                assert self.owns_throttles, "Apache Kafka describes a broker at that broker only"
                results.append(
                    {**_unexpected(broker, name), "resource_type": kind, "resource_name": name, "configs": ()}
                )
                continue
            if kind == TOPIC and name in self.deleted:
                gone = {"error_code": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "error_message": None}
                results.append({**gone, "resource_type": kind, "resource_name": name, "configs": ()})
                continue
            # A broker without a value of its own has that of all brokers, whose name is "".
            of_all = self.configs.get((BROKER, ""), {}) if kind == BROKER else {}
            own = dict(self.configs.get((kind, name), {}))
            if kind == BROKER and self.owns_throttles:
                own.setdefault("replication.quota.mode", "strict")
            entries = [
                {
                    "name": key,
                    "value": value,
                    "read_only": False,
                    "config_source": 1 if kind == TOPIC else 2 if key in own else 3,
                    "is_sensitive": False,
                    "synonyms": (),
                    "documentation": None,
                }
                for key, value in {**of_all, **own}.items()
                if key in each.configuration_keys
            ]
            results.append({**NONE, "resource_type": kind, "resource_name": name, "configs": entries})
        return {"throttle_time": 0, "results": results}

    def _incremental_alter_configs(self, broker: int, asked: Any) -> dict[str, Any]:
        responses = []
        for each in asked.resources:
            kind, name = int(each.resource_type), str(each.resource_name)
            if kind == BROKER and not self.owns_throttles:
                assert name == str(broker), "Apache Kafka takes a broker's configurations at that broker only"
            if kind == BROKER and int(name) not in self.registered:
                responses.append({**_unexpected(broker, name), "resource_type": kind, "resource_name": name})
                continue
            if asked.validate_only:
                responses.append({**NONE, "resource_type": kind, "resource_name": name})
                continue
            own = self.configs.setdefault((kind, name), {})
            for config in each.configs:
                if int(config.config_operation) == 1:
                    own.pop(str(config.name), None)
                else:
                    own[str(config.name)] = str(config.value)
                short = str(config.name).replace("replication.throttled.", "")
                value = "" if config.value is None else f"={config.value}"
                self.changes.append(f"{'topic' if kind == TOPIC else 'broker'} {name} {short}{value}")
            responses.append({**NONE, "resource_type": kind, "resource_name": name})
        return {"throttle_time": 0, "responses": responses}


def _unexpected(broker: int, name: str) -> dict[str, Any]:
    message = f"Unexpected broker id, expected {broker}, but received {name}"
    return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        server.kafka.connections.append(self.request)
        while True:
            size = self._receive(4)
            if size is None:
                return
            frame = self._receive(struct.unpack(">i", size)[0])
            if frame is None:
                return
            header = parse_request_header(frame)
            body = memoryview(frame)[header.body_position :]
            if header.key == ApiKey.DESCRIBE_LOG_DIRS and server.broker in server.kafka.silent:
                if server.kafka.on_silence is not None:
                    server.kafka.on_silence(server.kafka)
                continue
            while server.broker in server.kafka.paused:
                time.sleep(0.01)
            with contextlib.nullcontext() if server.kafka.lets_others_in else server.lock:
                fields = server.kafka.answer(server.broker, header.key, header.version, body)
            answer = encode_response(build(response_type(header.key, header.version), fields))
            header_version = response_header_version(header.key, header.version)
            self.request.sendall(b"".join(frame_response(header.correlation_id, header_version, [answer])))

    def _receive(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            part = self.request.recv(size - len(data))
            if not part:
                return None
            data += part
        return data


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def serving(kafka: ScriptedKafka) -> Iterator[ScriptedKafka]:
    """Serve a cluster, each broker at a port of its own."""
    servers = []
    lock = threading.Lock()
    for broker in kafka.brokers:
        server: Any = _Server(("127.0.0.1", 0), _Handler)
        server.kafka, server.broker, server.lock = kafka, broker, lock
        kafka.ports[broker] = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
    try:
        yield kafka
    finally:
        kafka.paused.clear()
        for server in servers:
            server.shutdown()
            server.server_close()


Serve = Callable[..., ScriptedKafka]


def at(kafka: ScriptedKafka, *arguments: str) -> str:
    """Run a command at a cluster; return what it prints."""
    return call(*arguments, "--bootstrap-server", kafka.bootstrap)


def refuses(kafka: ScriptedKafka, *arguments: str) -> str:
    """Run a command that refuses; return the sentence."""
    return refusal(*arguments, "--bootstrap-server", kafka.bootstrap)


def fails(kafka: ScriptedKafka, *arguments: str, code: int = 1) -> str:
    """Run a command that ends with this exit code; return what it prints."""
    with warnings.catch_warnings():
        # typer uses what click is about to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        from syncline.cli.commands import command_line
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        ended = command_line()([*arguments, "--bootstrap-server", kafka.bootstrap], standalone_mode=False)
    assert ended == code
    return shown.getvalue()
