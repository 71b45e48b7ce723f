"""Which handler serves which API key, on the client listener and between brokers.

Which versions a listener serves is a table in `wire`. A handler's module is
imported at the first request for its key: a broker starts sooner without the
code for requests that never come.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from syncline.node.api import api_00_produce, api_01_fetch, api_03_metadata, api_18_api_versions, forwarded
from syncline.node.dispatch import Handler
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
        api_21_delete_records,
        api_22_init_producer_id,
        api_23_offset_for_leader_epoch,
        api_32_describe_configs,
        api_34_alter_replica_log_dirs,
        api_35_describe_log_dirs,
        api_42_delete_groups,
        api_47_offset_delete,
        api_56_alter_partition,
        api_60_describe_cluster,
        api_62_broker_registration,
        api_63_broker_heartbeat,
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
        api_21_delete_records.handle,
        api_22_init_producer_id.handle,
        api_23_offset_for_leader_epoch.handle,
        api_32_describe_configs.handle,
        api_34_alter_replica_log_dirs.handle,
        api_35_describe_log_dirs.handle,
        api_42_delete_groups.handle,
        api_47_offset_delete.handle,
        api_56_alter_partition.handle,
        api_60_describe_cluster.handle,
        api_62_broker_registration.handle,
        api_63_broker_heartbeat.handle,
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
    "api_21_delete_records",
    "api_22_init_producer_id",
    "api_23_offset_for_leader_epoch",
    "api_32_describe_configs",
    "api_34_alter_replica_log_dirs",
    "api_35_describe_log_dirs",
    "api_42_delete_groups",
    "api_47_offset_delete",
    "api_56_alter_partition",
    "api_60_describe_cluster",
    "api_62_broker_registration",
    "api_63_broker_heartbeat",
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


# What brokers ask each other, and the versions of those that have schemas.
_AMONG_BROKERS: Final = tuple(
    name for name in _MODULES if int(name.split("_")[1]) in {23, 56, 62, 63} or int(name.split("_")[1]) >= 20_000
)
# What these, and the answers to them, import when they need it.
_BEHIND_THEM: Final = ("syncline.core.cluster.leader_elections", "syncline.storage.mending", "syncline.wire.stepwise")
_SCHEMAS: Final = (
    (ApiKey.ALTER_PARTITION, 3),
    (ApiKey.BROKER_REGISTRATION, 4),
    (ApiKey.BROKER_HEARTBEAT, 1),
)

# What requests of `syncline reassign` and `syncline throttle` need: several of them come at once, and each would hold
# the loop of a broker for ten milliseconds while its code and its schema are imported.
_FOR_MOVES: Final = (
    "syncline.core.cluster.config_changes",
    "syncline.core.cluster.reassignments",
    "syncline.node.api.api_32_describe_configs",
    "syncline.node.api.api_35_describe_log_dirs",
    "syncline.node.controller.reassignments",
)
_SCHEMAS_FOR_MOVES: Final = (
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


def import_for_moves() -> None:
    """Import what commands about moves and throttles ask for, in a worker: on the loop it would hold all requests."""
    for name in _FOR_MOVES:
        import_module(name)
    preload_schemas(_SCHEMAS_FOR_MOVES)


class Handlers:
    """The handlers by API key; `control_secret` is what calls of the control API must carry, None closes it."""

    def __init__(self, control_secret: str | None = None) -> None:
        self._control_secret = control_secret
        self._known: dict[int, BrokerHandler] = {int(module.KEY): module.handle for module in _EAGER}
        self._known.update({int(key): forwarded.handle for key in forwarded.KEYS})
        self._names = {int(name.split("_")[1]): name for name in _MODULES}

    def get(self, key: int) -> "BrokerHandler | None":
        """Return the handler of a key, None if there is none."""
        handler = self._known.get(key)
        if handler is None and key in self._names:
            module = import_module(f"syncline.node.api.{self._names[key]}")
            handler = cast("BrokerHandler", module.handle)
            if key == ApiKey.CONTROL:
                handler = cast("BrokerHandler", module.guarded(self._control_secret))
            self._known[key] = handler
        return handler

    def replace(self, key: int, handler: "BrokerHandler") -> None:
        """Replace the handler of a key."""
        self._known[key] = handler

    def keys(self) -> list[int]:
        """Return every key that has a handler."""
        return sorted({*self._known, *self._names})
