"""The periodic work of a broker: checkpoints, retention, samples and sweeps.

Work that looks at every partition is a generator, of which `Clockwork` takes a slice at a time.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.disk_watch import NOTABLE_MS, DiskWatch
from syncline.node.lag.cache_window import NOTE_INTERVAL_MS
from syncline.node.loop.clockwork import Every
from syncline.node.serving.request import Steps
from syncline.storage.errors import StorageError

if TYPE_CHECKING:
    from syncline.node.broker import Broker

log = logging.getLogger("syncline.node")

SWEEP_INTERVAL_MS: Final = 10_000
PRODUCERS_INTERVAL_MS: Final = 600_000


def start_housekeeping(broker: "Broker", clock: Clock, every: Every) -> None:
    """Begin all periodic work of a broker that serves requests."""
    config = broker.config
    broker.isr_ticks.start()
    broker.replicas.scrubber.start()
    every(
        "high-watermarks",
        config.replica_high_watermark_checkpoint_interval_ms,
        lambda: broker.logs.checkpoint_high_watermarks(later=True),
    )
    every("checkpoints", config.log_flush_offset_checkpoint_interval_ms, lambda: _checkpoint(broker))
    every(
        "append-times",
        config.lag_append_times_flush_interval_ms,
        lambda: watched(broker.logs.save_append_times(), clock, broker.observer.disk_watch),
    )
    every("retention", config.log_retention_check_interval_ms, lambda: _apply_retention(broker, clock))
    every("group-logs", config.log_retention_check_interval_ms, broker.renew_group_logs)
    every("sweep", SWEEP_INTERVAL_MS, lambda: _sweep(broker, clock))
    clients = broker.dispatcher.clients
    every("connections", clients.sweep_interval_ms, clients.sweep)
    every("producers", PRODUCERS_INTERVAL_MS, lambda: _expire_producers(broker, clock))
    broker.lag.start(every)
    every("cache", NOTE_INTERVAL_MS, broker.cache.note)
    broker.reporting.start(every, broker.fetching.lag, broker.isr_ticks.active)


def watched(written: Iterable[TopicPartition], clock: Clock, disk_watch: DiskWatch) -> Steps:
    """Write on, partition by partition; a disk that takes none of it holds the loop, as it does in an append."""
    began_ms = clock.mono_ms()
    for key in written:
        took_ms = clock.mono_ms() - began_ms
        if took_ms >= NOTABLE_MS:
            disk_watch.wrote(key, took_ms)
        yield
        began_ms = clock.mono_ms()


def _sweep(broker: "Broker", clock: Clock) -> Steps:
    # Retention may have deleted what kept a log aside.
    broker.replicas.offline.aside.look()
    broker.replicas.mender.look()
    yield from broker.logs.sweep(clock.mono_ms())


def _checkpoint(broker: "Broker") -> Steps:
    broker.logs.checkpoint_recovery_points(later=True)
    yield
    broker.logs.checkpoint_log_starts(later=True)


def _apply_retention(broker: "Broker", clock: Clock) -> Steps:
    for partition in list(broker.partitions.values()):
        yield
        # It may have gone since the last slice.
        if partition.is_offline or broker.partitions.get(partition.key) is not partition:
            continue
        now_ms, log_start = clock.wall_ms(), partition.log.log_start
        try:
            for base, end, size_bytes, reason in partition.log.retention(now_ms):
                log.info("%s: deleted offsets %s to %s, %s bytes: %s", partition.key, base, end - 1, size_bytes, reason)
        except StorageError as error:
            # A failed log must not prevent the cleaning of others; what was refused is tried again.
            log.warning("%s: retention failed: %s", partition.key, error)
        if partition.log.log_start != log_start:
            partition.watchers.log_start_moved()


def _expire_producers(broker: "Broker", clock: Clock) -> Steps:
    for partition in list(broker.partitions.values()):
        partition.log.producers.expire(clock.wall_ms(), broker.config.producer_id_expiration_ms)
        yield
