"""What two correct brokers may answer differently, taken out of an answer.

Broker ids become ranks, ports become their broker's, ids made by the cluster become symbols in the order in which they
are first seen, instants near now become "now", what is a set is sorted. Everything else stays and is compared.

One hard case: members of a group come in any order, so their ids must not be numbered in the order of the list. The
scalar fields of an answer are visited before its lists, and members are sorted by their metadata first.
"""

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import batches

Tree = dict[str, Any]
DROPPED = {"throttle_time", "finalized_features_epoch"}
BROKER_FIELDS = {
    "node_id", "broker_id", "leader_id", "preferred_read_replica", "replicas", "adding_replicas", "removing_replicas",
}  # fmt: skip
ORDERED_LISTS = {"coordinators", "batches", "records", "responses.partitions"}
SYMBOLIC = {"producer_id": "producer", "topic_id": "topic-id", "session_id": "session"}
EMPTY_VALUES = {-1, 0, None, ""}
UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BASE64_ID = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])")
BROKER_IN_TEXT = re.compile(r"((?:broker|expected|received|node) (?:id )?)(\d+)\b")
LONG_NUMBER = re.compile(r"-?\b\d{13,18}\b|-?\b9223\d{15}\b")
UNQUOTED_TEXT = "a text of Java's"
# Java's own words: what went wrong is compared, not how it is said.
JAVA_TEXT = re.compile(
    r"Exception|java\.|scala\.|/ by zero|DefaultRecord\(|Record size|Invalid magic|malformed by the client library"
)
SCALA_PREFIX = "requirement failed: "
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE = 2, 4, 8
LISTENER = re.compile(r"([A-Z]+)://([0-9.]+):(\d+)")
NEAR_NOW_MS = 12 * 3600 * 1000
KEYS_OF_ROWS = (
    "name", "topic", "topic_id", "group_id", "resource_type", "resource_name", "partition_index", "partition", "index",
    "api_key", "node_id", "broker_id", "key", "member_metadata", "metadata", "group_instance_id", "member_id",
    "batch_index", "error_code",
)  # fmt: skip


@dataclass
class Normaliser:
    """Symbols of one sequence; the same instance must see its answers in order."""

    prefix: str
    brokers: list[tuple[int, str, int]]
    symbols: dict[str, dict[Any, str]] = field(default_factory=dict)

    def answer(self, tree: Tree, *, own_rows: bool, in_order: bool = False) -> Any:
        """Return the comparable form of one decoded answer."""
        self.ranks = {node: rank for rank, (node, _, _) in enumerate(self.brokers)}
        self.ports = {(host, port): rank for rank, (_, host, port) in enumerate(self.brokers)}
        self.own_rows, self.in_order = own_rows, in_order
        return self._tree(tree, "")

    def symbol(self, kind: str, value: Any) -> str:
        """Return the symbol of a value, a new one when it was not seen before."""
        known = self.symbols.setdefault(kind, {})
        return known.setdefault(value, f"{kind} {len(known) + 1}")

    def _tree(self, tree: Tree, path: str) -> Tree:
        if "replica_nodes" in tree:
            return self._replicas(tree)
        if "current_voters" in tree:
            return self._quorum(tree)
        names = sorted((name for name in tree if name not in DROPPED), key=lambda name: isinstance(tree[name], list))
        found = {name: self._field(name, tree[name], path, tree) for name in names}
        return {name: found[name] for name in tree if name in found}

    def _field(self, name: str, value: Any, path: str, owner: Tree) -> Any:
        if isinstance(value, dict):
            return self._tree(value, f"{path}.{name}")
        if isinstance(value, list):
            return self._list(name, value, f"{path}.{name}")
        if name == "records":
            return None if value is None else self._tree(batches.decode(value), path)
        if isinstance(value, bytes):
            return self._bytes(value)
        return self._scalar(name, value, owner)

    def _list(self, name: str, rows: list[Any], path: str) -> Any:
        if name == "records":
            return [[self._text(each) if isinstance(each, str) else each for each in row] for row in rows]
        if name == "api_keys":
            return {str(row["api_key"]): f"{row['min_version']}-{row['max_version']}" for row in rows}
        if rows and isinstance(rows[0], dict):
            if self.own_rows and name in {"topics", "groups", "replica_election_results", "config_resources"}:
                rows = [row for row in rows if self._is_own(row)]
            if name == "members":
                rows = sorted(
                    rows,
                    key=lambda row: (
                        row.get("metadata", row.get("member_metadata", b"")),
                        row.get("group_instance_id") or "",
                        UUID_TEXT.sub("", row.get("member_id", "")),
                    ),
                )
            normal = [self._tree(row, path) for row in rows]
            is_ordered = name in ORDERED_LISTS or path.endswith("responses.partitions")
            is_ordered = is_ordered or (self.in_order and name == "responses")
            return normal if is_ordered else sorted(normal, key=_row_key)
        return [self._scalar(name, each, {}) if not isinstance(each, bytes) else self._bytes(each) for each in rows]

    def _is_own(self, row: Tree) -> bool:
        if row.get("resource_type", TOPIC_RESOURCE) != TOPIC_RESOURCE:
            return True
        name = row.get("name", row.get("topic", row.get("group_id", row.get("resource_name"))))
        return name is not None and name.startswith(self.prefix)

    def _bytes(self, value: bytes) -> str:
        plain = value.replace(self.prefix.encode(), b"")
        return self._text(plain.decode()) if plain.isascii() and plain.decode().isprintable() else f"hex {plain.hex()}"

    def _scalar(self, name: str, value: Any, owner: Tree) -> Any:
        if name in {"node_id", "port"} and value != -1 and "error_code" in owner:
            return self._coordinator(name, value, owner)
        if name in BROKER_FIELDS:
            return self._broker(value)
        if name == "controller_id":
            return "a live broker" if value in self.ranks else value
        if name == "host":
            return "host of a broker" if value else value
        if name == "port" and "host" in owner and (owner["host"], value) not in self.ports and "name" in owner:
            return "a port"
        if name == "port":
            return f"port of broker {self.ports.get((owner['host'], value), 'nowhere')}" if value != -1 else value
        if name in SYMBOLIC and value not in EMPTY_VALUES:
            return self._symbolic(name, value)
        if name in {"member_id", "leader"} and value:
            return self._member(value)
        if name == "resource_name" and owner["resource_type"] in {BROKER_RESOURCE, LOGGER_RESOURCE} and value.isdigit():
            return f"broker {self._rank_text(value)}"
        if name == "cluster_id" and value:
            return "the cluster"
        if name == "value" and ("config_source" in owner or "source" in owner) and value:
            return self._config_value(owner["name"], value)
        if name == "log_dir":
            return "a directory"
        if name == "documentation" and value:
            return "a text"
        if name in {"total_bytes", "usable_bytes"}:
            return "bytes" if value > 0 else value
        if isinstance(value, str):
            return self._error_text(value) if "message" in name else self._text(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value - time.time() * 1000) < NEAR_NOW_MS:
            return "now"
        return value

    def _config_value(self, name: str, value: str) -> str:
        """Return the value of a configuration; numbers, addresses and directories of brokers are symbols."""
        if name in {"node.id", "broker.id"} and value.isdigit():
            return f"broker {self._rank_text(value)}"
        if name in {"log.dirs", "log.dir"}:
            return "a directory"
        return LISTENER.sub(self._listener, self._text(value))

    def _listener(self, found: re.Match[str]) -> str:
        name, host, port = found.groups()
        rank = self.ports.get((host, int(port)))
        return f"{name} of broker #{rank}" if rank is not None else f"{name} elsewhere"

    def _broker(self, value: Any) -> Any:
        return f"broker {self.ranks[value]}" if value in self.ranks else value

    def _coordinator(self, name: str, value: int, owner: Tree) -> str:
        """Return a coordinator by the order in which it was met: which broker it is, is chance."""
        rank = self.ranks[value] if name == "node_id" else self.ports[owner["host"], value]
        return f"{name} of {self.symbol('coordinator', rank)}"

    def _symbolic(self, name: str, value: Any) -> Any:
        if name == "producer_id" and value >= 1_000_000_000:
            return value  # Chosen by the sequence, far above what a cluster hands out.
        if name == "topic_id" and len(set(value)) <= 3:
            return value  # Likewise: ids of repeated digits are ours.
        return self.symbol(SYMBOLIC[name], value)

    def _member(self, value: str) -> str:
        return UUID_TEXT.sub("UUID", self._text(value)) + (
            f" ({self.symbol('member', value)})" if UUID_TEXT.search(value) else ""
        )

    def _error_text(self, value: str) -> str:
        text = BROKER_IN_TEXT.sub(lambda found: found[1] + self._rank_text(found[2]), self._text(value))
        text = LONG_NUMBER.sub("TIME", BASE64_ID.sub("ID", UUID_TEXT.sub("UUID", text))).removeprefix(SCALA_PREFIX)
        return UNQUOTED_TEXT if JAVA_TEXT.search(text) else text

    def _rank_text(self, number: str) -> str:
        return f"#{self.ranks[int(number)]}" if int(number) in self.ranks else number

    def _text(self, value: str) -> str:
        text = value.replace(self.prefix, "")
        if len(text) > 80 and len(set(text)) == 1:
            return f"{text[0]}*{len(text)}"
        return text

    def _quorum(self, row: Tree) -> Tree:
        """Return the partition of a quorum: who leads it, and how far it has come, is chance."""
        found = dict(row)
        if row["error_code"]:
            return found
        found["leader_id"] = "a live broker" if row["leader_id"] in self.ranks else row["leader_id"]
        found["leader_epoch"] = "an epoch" if row["leader_epoch"] > 0 else row["leader_epoch"]
        found["high_watermark"] = "an offset" if row["high_watermark"] > 0 else row["high_watermark"]
        for name in ("current_voters", "observers"):
            voters = [self._tree(voter, name) for voter in row[name]]
            for voter in voters:
                voter["replica_id"] = self._broker(voter["replica_id"])
                voter["log_end_offset"] = "an offset" if voter["log_end_offset"] > 0 else voter["log_end_offset"]
                if voter.get("replica_directory_id") is not None:
                    voter["replica_directory_id"] = "a directory"
            found[name] = sorted(voters, key=lambda voter: str(voter["replica_id"]))
        return found

    def _replicas(self, row: Tree) -> Tree:
        """Return a partition of Metadata; replicas are named by their place in the assignment."""
        places = {node: f"replica {place}" for place, node in enumerate(row["replica_nodes"])}
        found = dict(row)
        found["leader_id"] = places.get(row["leader_id"], row["leader_id"])
        found["replica_nodes"] = len(row["replica_nodes"])
        for name in ("isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr"):
            if row.get(name) is not None:
                found[name] = sorted(places.get(node, str(node)) for node in row[name])
        return found


def _row_key(row: Tree) -> str:
    keys = [row.get(name) for name in KEYS_OF_ROWS if name in row]
    return json.dumps(
        [[str(type(key)), key] if not isinstance(key, int) else ["", f"{key:020}"] for key in keys]
    ) + json.dumps(row, sort_keys=True)
