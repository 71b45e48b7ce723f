"""Where an attack takes place: ports, the controller, topics; looked up before each case.

The cluster's topics: `neighbour` is the well-behaved client's and is attacked by nobody; `target` is there to be
named; `compacted` is compacted, so that a leader must open every batch for it.
"""

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any, Final

from syncline.wire.api import ApiKey
from tests.process import raw

NEIGHBOUR: Final = "neighbour"
TARGET: Final = "target"
COMPACTED: Final = "compacted"


@dataclass(frozen=True)
class Scene:
    """The cluster as an attacker sees it. Ports are by broker id, leaders by "topic-partition", topic ids in hex."""

    client_ports: dict[int, int]
    internal_ports: dict[int, int]
    metrics_ports: dict[int, int]
    controller: int
    leaders: dict[str, int]
    topic_ids: dict[str, str]

    def encoded(self) -> str:
        """Return the scene as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, line: str) -> "Scene":
        """Return the scene of a line."""
        fields = json.loads(line)
        for name in ("client_ports", "internal_ports", "metrics_ports"):
            fields[name] = {int(broker): port for broker, port in fields[name].items()}
        return cls(**fields)

    @property
    def controller_port(self) -> int:
        """Where clients reach the controller."""
        return self.client_ports[self.controller]

    @property
    def other_port(self) -> int:
        """Where clients reach a broker that has to ask the controller."""
        return next(port for broker, port in sorted(self.client_ports.items()) if broker != self.controller)

    def leader_port(self, topic: str, partition: int = 0) -> int:
        """Where clients reach the leader of a partition."""
        return self.client_ports[self.leaders[f"{topic}-{partition}"]]

    def topic_id(self, topic: str) -> uuid.UUID:
        """Return the id of a topic."""
        return uuid.UUID(hex=self.topic_ids[topic])

    def coordinator_ports(self, groups: list[str]) -> list[int]:
        """Return where clients reach the coordinator of each group."""
        fields = {"key_type": 0, "coordinator_keys": groups}
        answer: Any = raw.ask(self.controller_port, ApiKey.FIND_COORDINATOR, 4, fields)
        ports = {each.key: int(each.port) for each in answer.coordinators}
        return [ports[group] for group in groups]
