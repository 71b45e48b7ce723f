"""L10: requests that cost much, and what they cost the broker that answers them.

While one is answered, no broker may make more than `CALLS_MAX` calls without
giving others their turn, or at least looking whether it should (`time/meter.py`).
That is what fits into the 50 ms for which nothing may hold the loop.

Requests name many things, or one thing many times, as large as a legal client
may make them, scaled down so that a run stays fast. None changes anything.
"""

from collections.abc import Callable
from typing import Any, Final

from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.virtual.cluster import CLIENT_PORT, VirtualCluster
from syncline.virtual.faults import COSTLY_REQUESTS
from syncline.virtual.time.meter import CallMeter
from syncline.wire.api import ApiKey
from syncline.wire.codec import encode_request, request_type
from syncline.wire.entities import build

HOST: Final = "costly-client"
CALLS_MAX: Final = 100_000
_BROKER_RESOURCE: Final = 4
_SAME_BROKER_TIMES: Final = 20
_NAMES: Final = 3_000
_TOPICS: Final = 100

# (key, version, fields of the request), given the number of the broker that is asked.
_Request = tuple[ApiKey, int, dict[str, Any]]


def _describe_one_broker(broker_id: int) -> _Request:
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": str(broker_id), "configuration_keys": None}
    fields = {
        "resources": [resource] * _SAME_BROKER_TIMES,
        "include_synonyms": True,
        "include_documentation": True,
    }
    return ApiKey.DESCRIBE_CONFIGS, 4, fields


def _find_many_coordinators(_broker_id: int) -> _Request:
    keys = tuple(f"group-{number}" for number in range(_NAMES))
    return ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": keys}


def _ask_for_unknown_topics(_broker_id: int) -> _Request:
    topics = [{"topic_id": None, "name": f"unknown-{number}"} for number in range(_NAMES)]
    fields = {"topics": topics, "allow_auto_topic_creation": True, "include_topic_authorized_operations": False}
    return ApiKey.METADATA, 12, fields


def _check_many_topics(_broker_id: int) -> _Request:
    topics = [
        {"name": f"imagined-{number}", "num_partitions": 1, "replication_factor": 3, "assignments": (), "configs": ()}
        for number in range(_TOPICS)
    ]
    return ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout": 10_000, "validate_only": True}


# A fault's amount chooses one.
COSTLY: Final[tuple[Callable[[int], _Request], ...]] = (
    _describe_one_broker,
    _find_many_coordinators,
    _ask_for_unknown_topics,
    _check_many_topics,
)
assert len(COSTLY) == COSTLY_REQUESTS, f"plans draw from {COSTLY_REQUESTS} requests, there are {len(COSTLY)}"


class CostlyClient:
    """Sends costly requests, and measures what the brokers do meanwhile."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.violations: list[str] = []
        self.answered = 0
        self._cluster = cluster
        self._process = cluster.client_process(HOST)
        self._brokers = frozenset(host.name for host in cluster.hosts.values())

    def send(self, broker_id: int, host: str, number: int) -> None:
        """Send a costly request to a broker."""
        self._process.context.run(self._cluster.loop.create_task, self._send(broker_id, host, number))

    async def _send(self, broker_id: int, host: str, number: int) -> None:
        key, version, fields = COSTLY[number](broker_id)
        body = encode_request(build(request_type(key, version), fields))
        try:
            peer = await PeerConnection.connect(host, CLIENT_PORT, HOST)
        except PeerLost:
            return
        meter = CallMeter(self._brokers)
        loop = self._cluster.loop
        loop.meter = meter
        try:
            await peer.request_raw(key, version, (body,))
            self.answered += 1
        except PeerLost:
            return  # a fault struck its broker meanwhile
        finally:
            loop.meter = None
            peer.close()
            if meter.calls_max > CALLS_MAX:
                self.violations.append(
                    f"L10 {key.name} to {host}: {meter.calls_max} calls without a look at the clock, more than"
                    f" {CALLS_MAX}, in one of {meter.callbacks} callbacks"
                )
