"""An operator who throttles replication while faults strike: rates, lists, wildcards and rules at random (KIP-73).

Each request goes to whichever broker the plan names, once, as those of moves do. What was set stays when the faults
end: a replica that is outside the in-sync set then need not come back while a throttle holds it (`held()`), and all
others must. Then the operator removes everything, and the cluster must become whole as ever.

What a throttle never does is harm members of an in-sync set: nothing here excuses that one of them leaves it.

Units: bytes per second.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.throttled_replicas import partitions_of
from syncline.model.ids import OFFSETS_TOPIC, BrokerId, TopicPartition
from syncline.model.metadata import ConfigResource, ResourceType
from syncline.model.topic_config import FOLLOWER_THROTTLED, LEADER_THROTTLED
from syncline.node.throttle.throttles import FOLLOWER_RATE, LEADER_RATE, rate_of
from syncline.virtual.cluster import VirtualCluster
from syncline.virtual.determinism.streams import stream
from syncline.virtual.faults import Fault
from syncline.virtual.host import Host
from syncline.virtual.operators.sending import send_once
from syncline.virtual.time.durations import MS
from syncline.wire.api import ApiKey

HOST: Final = "throttler"
KIND: Final = "throttle"
_MODE: Final = "replication.quota.mode"
_NAMES: Final = frozenset({LEADER_RATE, FOLLOWER_RATE, LEADER_THROTTLED, FOLLOWER_THROTTLED, _MODE})
_INTERVAL_NS_MEAN: Final = 1_500 * MS
# None removes a rate.
_RATES: Final = (None, 0, 1, 2_000, 50_000, 1_000_000)
# With such a rate, what a run has written is copied before the run is judged.
ENOUGH_BYTES_PER_S: Final = 50_000
_LIST_ITEMS_MAX: Final = 4
_AGAIN_S: Final = 0.2
_SET: Final = 0
_DELETE: Final = 1
_VERSION: Final = 1


def draw_throttles(rng: random.Random, begin_ns: int, end_ns: int) -> tuple[Fault, ...]:
    """Return the operator's requests between two instants, as part of a plan of faults; `amount` seeds the choices."""
    plan: list[Fault] = []
    at_ns = begin_ns
    while True:
        at_ns += int(rng.expovariate(1 / _INTERVAL_NS_MEAN))
        if at_ns >= end_ns:
            return tuple(plan)
        plan.append(Fault(at_ns, KIND, "any", "", 0, rng.getrandbits(32)))


class Throttler:
    """Sends the requests of a plan."""

    def __init__(self, cluster: VirtualCluster, partitions: Sequence[TopicPartition]) -> None:
        self._cluster = cluster
        self._partitions = (*partitions, TopicPartition(OFFSETS_TOPIC, 0))
        self._process = cluster.client_process(HOST)

    def request(self, fault: Fault, host: Host) -> None:
        """Send one request to a broker."""
        rng = stream(self._cluster.seed, "throttle", fault.amount)
        resource, name, value = self._chosen(rng)
        self._process.context.run(self._cluster.loop.create_task, self._send(host.name, resource, {name: value}))

    def _chosen(self, rng: random.Random) -> tuple[ConfigResource, str, str | None]:
        what = rng.random()
        if what < 0.1:
            return _broker(""), _MODE, rng.choice((None, *(mode.value for mode in ThrottleMode)))
        if what < 0.5:
            # Of one broker, or of all that have none of their own.
            broker = rng.choice(("", "", *map(str, sorted(self._cluster.hosts))))
            rate = rng.choice(_RATES)
            return _broker(broker), rng.choice((LEADER_RATE, FOLLOWER_RATE)), None if rate is None else str(rate)
        key = rng.choice(self._partitions)
        brokers = sorted(self._cluster.hosts)
        numbers = sorted(each.partition for each in self._partitions if each.topic == key.topic)
        items = [f"{rng.choice(numbers)}:{rng.choice(brokers)}" for _ in range(rng.randint(1, _LIST_ITEMS_MAX))]
        value = rng.choice((None, "*", "*", ",".join(dict.fromkeys(items))))
        return ConfigResource(ResourceType.TOPIC, key.topic), rng.choice((LEADER_THROTTLED, FOLLOWER_THROTTLED)), value

    async def _send(self, host: str, resource: ConfigResource, values: dict[str, str | None]) -> None:
        fields = {
            "resources": [
                {
                    "resource_type": int(resource.kind),
                    "resource_name": resource.name,
                    "configs": [
                        {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
                        for name, value in values.items()
                    ],
                }
            ],
            "validate_only": False,
        }
        await send_once(HOST, host, ApiKey.INCREMENTAL_ALTER_CONFIGS, _VERSION, fields)

    async def clear(self) -> None:
        """Remove everything that was set, however many requests are lost."""
        hosts = list(self._cluster.hosts.values())
        tries = 0
        while left := self._left():
            host = hosts[tries % len(hosts)]
            tries += 1
            for resource, names in left.items():
                sending = self._send(host.name, resource, dict.fromkeys(names))
                await self._process.context.run(self._cluster.loop.create_task, sending)
            await asyncio.sleep(_AGAIN_S)

    def _left(self) -> dict[ConfigResource, list[str]]:
        configs = self._cluster.store.image.configs
        found = {resource: sorted(_NAMES & values.keys()) for resource, values in configs.items()}
        return {resource: names for resource, names in found.items() if names}

    def held(self, key: TopicPartition) -> frozenset[int]:
        """Return the replicas of a partition that stay outside its in-sync set, because a throttle is too low."""
        image = self._cluster.store.image
        record = image.partition(key.topic, key.partition)
        if record is None:
            return frozenset()
        outside = [each for each in record.replicas if each not in record.isr]
        if self._is_held(key, record.leader, LEADER_THROTTLED, LEADER_RATE):
            return frozenset(outside)
        return frozenset(each for each in outside if self._is_held(key, each, FOLLOWER_THROTTLED, FOLLOWER_RATE))

    def _is_held(self, key: TopicPartition, broker: BrokerId, list_name: str, rate_name: str) -> bool:
        image = self._cluster.store.image
        items = image.topic_configs(key.topic).get(list_name, "").split(",")
        partitions = partitions_of(items, broker)
        is_listed = partitions is None or key.partition in partitions
        return is_listed and rate_of(image, broker, rate_name) < ENOUGH_BYTES_PER_S


def _broker(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.BROKER, name)
