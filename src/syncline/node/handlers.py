"""Which handler serves which API key, on the client listener and between brokers.

Which versions a listener serves is a table in `wire`. A handler's module is
imported at the first request for its key: a broker starts sooner without the
code for requests that never come. The first request that only tools make waits
until a worker has imported what it and those that follow it need.
"""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from syncline.node.api import api_00_produce, api_01_fetch, api_03_metadata, api_18_api_versions, forwarded
from syncline.node.serving.dispatch import Handler
from syncline.wire.api import ApiKey
from syncline.wire.codec import preload as preload_schemas

if TYPE_CHECKING:
    from syncline.node.api import (
        api_02_list_offsets,
        api_08_offset_commit,
        api_09_offset_fetch,
        api_10_find_coordinator,
        api_11_join_group,
        api_12_heartbeat,
        api_13_leave_group,
        api_14_sync_group,
        api_15_describe_groups,
        api_16_list_groups,
        api_17_sasl_handshake,
        api_21_delete_records,
        api_22_init_producer_id,
        api_23_offset_for_leader_epoch,
        api_32_describe_configs,
        api_34_alter_replica_log_dirs,
        api_35_describe_log_dirs,
        api_36_sasl_authenticate,
        api_42_delete_groups,
        api_47_offset_delete,
        api_56_alter_partition,
        api_60_describe_cluster,
        api_61_describe_producers,
        api_62_broker_registration,
        api_63_broker_heartbeat,
        api_74_list_config_resources,
        api_75_describe_topic_partitions,
        api_20000_metadata_delta,
        api_20001_forward,
        api_20002_control,
        api_20003_peer_beat,
        api_20004_stop_together,
        api_20005_doubt,
        api_20006_copies,
        api_20007_lag,
        api_20008_append_times,
        api_20009_group_rows,
    )
    from syncline.node.broker import Broker
    from syncline.node.serving.request import Request, Steps

    BrokerHandler: TypeAlias = Handler[Broker]
    # Each handler declares what it uses of its broker; mypy checks here that the broker has it.
    _LATE: tuple[BrokerHandler, ...] = (
        api_02_list_offsets.handle,
        api_08_offset_commit.handle,
        api_09_offset_fetch.handle,
        api_10_find_coordinator.handle,
        api_11_join_group.handle,
        api_12_heartbeat.handle,
        api_13_leave_group.handle,
        api_14_sync_group.handle,
        api_15_describe_groups.handle,
        api_16_list_groups.handle,
        api_17_sasl_handshake.handle,
        api_21_delete_records.handle,
        api_22_init_producer_id.handle,
        api_23_offset_for_leader_epoch.handle,
        api_32_describe_configs.handle,
        api_34_alter_replica_log_dirs.handle,
        api_35_describe_log_dirs.handle,
        api_36_sasl_authenticate.handle,
        api_42_delete_groups.handle,
        api_47_offset_delete.handle,
        api_56_alter_partition.handle,
        api_60_describe_cluster.handle,
        api_61_describe_producers.handle,
        api_62_broker_registration.handle,
        api_63_broker_heartbeat.handle,
        api_74_list_config_resources.handle,
        api_75_describe_topic_partitions.handle,
        api_20000_metadata_delta.handle,
        api_20001_forward.handle,
        api_20002_control.handle,
        api_20003_peer_beat.handle,
        api_20004_stop_together.handle,
        api_20005_doubt.handle,
        api_20006_copies.handle,
        api_20007_lag.handle,
        api_20008_append_times.handle,
        api_20009_group_rows.handle,
    )

log = logging.getLogger("syncline.node")

# Runs a function beside the loop, and calls another one on the loop with its exception or None: `Disk.run_later`.
RunLater: TypeAlias = Callable[[Callable[[], None], Callable[[Exception | None], None]], object]

# Every broker needs these at its start.
_EAGER: Final = (api_00_produce, api_01_fetch, api_03_metadata, api_18_api_versions)

_MODULES: Final = (
    "api_02_list_offsets",
    "api_08_offset_commit",
    "api_09_offset_fetch",
    "api_10_find_coordinator",
    "api_11_join_group",
    "api_12_heartbeat",
    "api_13_leave_group",
    "api_14_sync_group",
    "api_15_describe_groups",
    "api_16_list_groups",
    "api_17_sasl_handshake",
    "api_21_delete_records",
    "api_22_init_producer_id",
    "api_23_offset_for_leader_epoch",
    "api_32_describe_configs",
    "api_34_alter_replica_log_dirs",
    "api_35_describe_log_dirs",
    "api_36_sasl_authenticate",
    "api_42_delete_groups",
    "api_47_offset_delete",
    "api_56_alter_partition",
    "api_60_describe_cluster",
    "api_61_describe_producers",
    "api_62_broker_registration",
    "api_63_broker_heartbeat",
    "api_74_list_config_resources",
    "api_75_describe_topic_partitions",
    "api_20000_metadata_delta",
    "api_20001_forward",
    "api_20002_control",
    "api_20003_peer_beat",
    "api_20004_stop_together",
    "api_20005_doubt",
    "api_20006_copies",
    "api_20007_lag",
    "api_20008_append_times",
    "api_20009_group_rows",
)


_KEYS: Final = {name: int(name.split("_")[1]) for name in _MODULES}

# What brokers ask each other, and the versions of those that have schemas.
_AMONG_BROKERS: Final = tuple(
    name for name, key in _KEYS.items() if key in {23, 56, 62, 63} or (key >= 20_000 and key != ApiKey.CONTROL)
)
# What these, and the answers to them, import when they need it.
_BEHIND_THEM: Final = (
    "syncline.core.cluster.leader_elections",
    "syncline.storage.recovery.mending",
    "syncline.wire.stepwise",
)
_SCHEMAS: Final = (
    (ApiKey.ALTER_PARTITION, 3),
    (ApiKey.BROKER_REGISTRATION, 4),
    (ApiKey.BROKER_HEARTBEAT, 1),
)

# What only tools ask for. Where one of these requests comes, others follow.
_BY_TOOLS: Final = frozenset(
    {
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.CONTROL,
    }
)
# What these requests need. To import the code and the schema of one would hold the loop for up to ten milliseconds, and
# all of it takes a megabyte of memory, which most brokers never need.
_FOR_TOOLS: Final = (
    "syncline.core.cluster.config_changes",
    "syncline.core.cluster.reassignments",
    "syncline.node.api.api_32_describe_configs",
    "syncline.node.api.api_35_describe_log_dirs",
    "syncline.node.api.api_20002_control",
    "syncline.node.controller.reassignments",
)
_SCHEMAS_FOR_TOOLS: Final = (
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0),
    (ApiKey.METADATA, 12),
    (ApiKey.DESCRIBE_LOG_DIRS, 4),
    (ApiKey.DESCRIBE_CONFIGS, 4),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1),
)


def import_for_brokers() -> None:
    """Import what brokers need among themselves, in a worker, before the process may lack descriptors for that.

    A broker that runs out of descriptors still has to hand its partitions over, and to take them back.
    """
    for name in (*(f"syncline.node.api.{each}" for each in _AMONG_BROKERS), *_BEHIND_THEM):
        import_module(name)
    preload_schemas(_SCHEMAS)


def import_for_tools() -> None:
    """Import what tools ask for, in a worker: on the loop it would hold all requests."""
    for name in _FOR_TOOLS:
        import_module(name)
    preload_schemas(_SCHEMAS_FOR_TOOLS)


class Handlers:
    """The handlers by API key; `control_secret` is what calls of the control API must carry, None closes it."""

    def __init__(self, control_secret: str | None = None) -> None:
        self._control_secret = control_secret
        self._known: dict[int, BrokerHandler] = {int(module.KEY): module.handle for module in _EAGER}
        self._forwarded: dict[int, BrokerHandler] = {int(key): forwarded.handle for key in forwarded.KEYS}
        self._names = {key: name for name, key in _KEYS.items()}
        # Imports what tools need, in a worker, when the first of them asks. None: that is done, or no worker does it.
        self._run_later: RunLater | None = None
        # Requests of tools that came meanwhile.
        self._waiting: list[tuple[Broker, Request]] = []

    def import_for_tools_with(self, run_later: RunLater) -> None:
        """Have what tools need imported by `run_later` as soon as one of them asks; its request waits for that."""
        self._run_later = run_later

    def get(self, key: int) -> "BrokerHandler | None":
        """Return the handler of a key, None if there is none."""
        handler = self._known.get(key)
        if handler is None and (key in self._forwarded or key in self._names):
            if self._run_later is not None and (key in _BY_TOOLS or key == ApiKey.FORWARD):
                return self._forward if key == ApiKey.FORWARD else self._wait
            handler = self._known[key] = self._forwarded.get(key) or self._imported(key)
        return handler

    def _imported(self, key: int) -> "BrokerHandler":
        module = import_module(f"syncline.node.api.{self._names[key]}")
        if key == ApiKey.CONTROL:
            return cast("BrokerHandler", module.guarded(self._control_secret))
        return cast("BrokerHandler", module.handle)

    def _forward(self, broker: "Broker", request: "Request") -> "Steps | None":
        """Serve what another broker forwards, when what it needs is imported."""
        # The message begins with the key.
        key = int.from_bytes(request.body[request.position : request.position + 2], "big", signed=True)
        if key in _BY_TOOLS:
            self._wait(broker, request)
            return None
        return self._imported(ApiKey.FORWARD)(broker, request)

    def _wait(self, broker: "Broker", request: "Request") -> None:
        """Serve a request when what tools need is imported."""
        assert self._run_later is not None, "a request waits for what is imported already"
        if request.listener != "client":
            # Other requests of that connection go on meanwhile, in the same receive buffer.
            request.body = memoryview(bytearray(request.body))
        request.connection.wait_for(request)
        self._waiting.append((broker, request))
        if len(self._waiting) == 1:
            self._run_later(import_for_tools, self._imported_for_tools)

    def _imported_for_tools(self, outcome: Exception | None) -> None:
        if outcome is not None:
            log.warning(
                "the handlers of tools' requests could not be imported; the import is repeated when a request "
                "needs them: %s",
                outcome,
            )
        self._run_later = None
        waiting, self._waiting = self._waiting, []
        for broker, request in waiting:
            if request.connection.transport is not None:
                broker.dispatcher.long_requests.arrived(request, self._serve(broker, request), has_waited=True)

    def _serve(self, broker: "Broker", request: "Request") -> "Steps":
        handler = self.get(request.key)
        assert handler is not None, f"a request waited that nothing serves: {request}"
        steps = handler(broker, request)
        if steps is not None:
            yield from steps

    def replace(self, key: int, handler: "BrokerHandler") -> None:
        """Replace the handler of a key."""
        self._known[key] = handler

    def keys(self) -> list[int]:
        """Return every key that has a handler."""
        return sorted({*self._known, *self._forwarded, *self._names})
