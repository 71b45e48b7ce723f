"""One scrape: read the state of a broker and write it as samples.

A scrape measures nothing: it reads gauges from the brokers' own state, and counters
that were incremented where things happened. It works in slices and frees the loop
between them, so that thousands of partitions delay no request. So it reads
partitions at slightly different moments, but each one consistently.

Times in ms of the node's clock, seconds only where a metric's name says so.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from syncline import __version__
from syncline.core.replication.effects import SkipReason
from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.quota import UNLIMITED
from syncline.model.metadata import BrokerRecord, MetadataImage
from syncline.node.counting.counters import KIND_SHIFT, TopicCounters
from syncline.node.fetching.operation import FetchOperation
from syncline.node.metrics import table
from syncline.node.metrics.fetch_samples import FetchSamples
from syncline.node.metrics.group_samples import GroupSamples
from syncline.node.metrics.partition_samples import FETCHER_THREAD, Inflows, PartitionSamples
from syncline.node.metrics.text import Page, collected
from syncline.node.producing.operation import ProduceOperation
from syncline.records.validate import Fault
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.metrics.scraped import ScrapedBroker

# How many are read in one turn of the loop, which takes 1 ms or less.
PARTITIONS_PER_SLICE: Final = 20
RECORDS_PER_SLICE: Final = 4_000
FETCHER_CLIENT: Final = "Replica"
# Kafka's states of a broker.
_FENCED: Final = 1
_RUNNING: Final = 3
_LEAVING: Final = 6


class ProcessFigures(NamedTuple):
    """The operating system's figures about this process."""

    cpu_s: float
    resident_bytes: int
    virtual_bytes: int
    open_descriptors: int
    descriptors_max: int
    started_s: float


class ControllerFigures(NamedTuple):
    """What the controller counts in the metadata."""

    active_brokers: int = 0
    fenced_brokers: int = 0
    topics: int = 0
    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0


class Scraper:
    """Makes pages for one broker."""

    def __init__(self, broker: "ScrapedBroker", process: Callable[[], ProcessFigures] | None = None) -> None:
        self._broker = broker
        self._process = process
        # By leader: the time of the last scrape, and the number of fetches until then.
        self._fetches: dict[int, tuple[int, int]] = {}
        # By lease epoch and version of the metadata: an image is large, and the next scrape may never come.
        self._counted: tuple[tuple[int, int], ControllerFigures] | None = None
        self._inflows = Inflows()
        self._fetch_samples = FetchSamples(broker.fetching.lag)

    async def scrape(self) -> Sequence[bytes]:
        """Return the page, in pieces."""
        page = Page(lowercase=self._broker.config.metrics_label_names == "lowercase")
        detail = self._broker.config.lag_metrics_detail
        await self._add_partitions(page)
        await self._add_topics(page)
        await self._add_controller(page)
        # Each of these takes a millisecond or two of a broker that moves thousands of partitions.
        for add in (self._add_fetchers, self._add_waiting, self._add_traffic):
            await asyncio.sleep(0)
            add(page)
        await asyncio.sleep(0)
        await self._fetch_samples.write(page, self._broker.image.topics, is_detailed=detail != "group")
        await self._add_groups(page, detail)
        self._add_clients(page)
        self._add_relinquishing(page)
        await self._add_throttles(page)
        self._add_identity(page)
        await asyncio.sleep(0)
        return await collected(page)

    async def _add_partitions(self, page: Page) -> None:
        broker = self._broker
        samples = PartitionSamples(page, broker.clock.mono_ms(), self._inflows)
        self._inflows.keep(broker.partitions)
        scrubber, oldest_check_ms = broker.replicas.scrubber, 0
        for number, partition in enumerate(list(broker.partitions.values())):
            if number % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)
                samples.now_ms = broker.clock.mono_ms()
            if broker.partitions.get(partition.key) is partition:
                samples.write(partition)
                oldest_check_ms = max(oldest_check_ms, scrubber.check_age_ms(partition))
        totals = samples.totals
        totals.check_invariants()
        page.add(table.PARTITION_COUNT, totals.partitions)
        page.add(table.LEADER_COUNT, totals.leaders)
        page.add(table.UNDER_REPLICATED_PARTITIONS, totals.under_replicated)
        page.add(table.UNDER_MIN_ISR_PARTITIONS, totals.under_min_isr)
        page.add(table.AT_MIN_ISR_PARTITIONS, totals.at_min_isr)
        page.add(table.OFFLINE_REPLICA_COUNT, totals.offline + len(broker.logs.damaged))
        writes, damaged = broker.replicas.refused_writes, broker.replicas.offline.served()
        page.add(table.UNFIT_REPLICAS, len(damaged) if writes.refusal is None else totals.partitions)
        page.add(table.REFUSED_WRITES, writes.refused_total)
        page.add(table.ASIDE_LOGS, len(broker.logs.aside))
        page.add(table.ASIDE_BYTES, broker.logs.aside.size_bytes)
        page.add(table.MENDED_LOGS, broker.replicas.mender.mended_count)
        page.add(table.SCRUBBED_BYTES, scrubber.checked_bytes)
        page.add(table.SCRUB_DAMAGED, scrubber.found_count)
        page.add(table.SCRUB_OLDEST, oldest_check_ms / 1000)
        page.add(table.PRODUCER_ID_COUNT, totals.producers)
        page.add(table.PENDING_FOLLOWER_FETCHES, broker.fetching.slow_reads.pending_count)
        page.add(table.PENDING_PROTECTED_REPLICAS, totals.protected)
        page.add(table.REASSIGNING_PARTITIONS, totals.reassigning)
        page.add(table.LATE_TRANSACTIONS, 0)
        page.add(table.MAX_LAG, totals.max_lag, FETCHER_CLIENT)
        page.add(table.SUM_REPLICA_LAG, totals.lag_records)
        page.add(table.UNKNOWN_REPLICA_LAG, totals.unknown_lags)
        for follower_id, lag_bytes in sorted(totals.lag_bytes.items()):
            page.add(table.SUM_REPLICA_LAG_BYTES, lag_bytes, follower_id)
        page.add(table.FAILED_PARTITIONS, totals.failed, FETCHER_CLIENT)
        page.add(table.DEAD_THREADS, 0, FETCHER_CLIENT)

    async def _add_topics(self, page: Page) -> None:
        counters = self._broker.counters
        total = TopicCounters()
        total.add(counters.elsewhere)
        for number, (topic, each) in enumerate(list(counters.topics.items())):
            if number % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)
            total.add(each)
            _add_topic(page, each, topic)
        _add_topic(page, total)

    async def _add_controller(self, page: Page) -> None:
        active = self._broker.controller.active
        figures = ControllerFigures() if active is None else await self._count(active.lease_epoch, active.image)
        page.add(table.ACTIVE_CONTROLLER, int(active is not None))
        page.add(table.ACTIVE_BROKERS, figures.active_brokers)
        page.add(table.FENCED_BROKERS, figures.fenced_brokers)
        page.add(table.GLOBAL_TOPICS, figures.topics)
        page.add(table.GLOBAL_PARTITIONS, figures.partitions)
        page.add(table.OFFLINE_PARTITIONS, figures.offline)
        page.add(table.PREFERRED_IMBALANCE, figures.imbalanced)
        page.add(table.TIMED_OUT_HEARTBEATS, 0 if active is None else active.timed_out_count)
        page.add(table.UNCLEAN_ELECTIONS, 0 if active is None else active.unclean_election_count)
        page.add(table.METADATA_ERRORS, 0)

    async def _count(self, lease_epoch: int, image: MetadataImage) -> ControllerFigures:
        """Return the counts in the metadata; under a lease, each version has one image, and is counted once."""
        counted = (lease_epoch, image.version)
        if self._counted is not None and self._counted[0] == counted:
            return self._counted[1]
        partitions = offline = imbalanced = looked_at = 0
        for topic in image.topics.values():
            for record in topic.partitions:
                offline += not record.has_leader
                imbalanced += record.leader != record.replicas[0]
            partitions += len(topic.partitions)
            if partitions - looked_at > RECORDS_PER_SLICE:
                looked_at = partitions
                await asyncio.sleep(0)
        fenced = sum(record.fenced for record in image.brokers.values())
        figures = ControllerFigures(
            len(image.brokers) - fenced, fenced, len(image.topics), partitions, offline, imbalanced
        )
        self._counted = (counted, figures)
        return figures

    def _add_fetchers(self, page: Page) -> None:
        broker = self._broker
        now_ms = broker.clock.mono_ms()
        rates: list[float] = []
        for leader_id, fetcher in broker.replicas.fetchers.by_leader.items():
            since_ms, count = self._fetches.get(leader_id, (fetcher.created_ms, 0))
            self._fetches[leader_id] = (now_ms, fetcher.fetch_count)
            if len(fetcher):
                rates.append(1_000 * (fetcher.fetch_count - count) / max(1, now_ms - since_ms))
            record = broker.image.brokers.get(leader_id)  # type: ignore[call-overload]
            if record is not None:
                labels = (f"{FETCHER_THREAD}{leader_id}", record.internal_host, record.internal_port)
                page.add(table.FETCHER_REQUESTS, fetcher.fetch_count, *labels)
                page.add(table.FETCHER_BYTES, fetcher.fetched_bytes, *labels)
        page.add(table.MIN_FETCH_RATE, min(rates, default=0.0), FETCHER_CLIENT)

    def _add_waiting(self, page: Page) -> None:
        broker = self._broker
        produces = fetches = produce_entries = fetch_entries = 0
        for operation in broker.fetching.deadlines:
            if isinstance(operation, FetchOperation):
                fetches += 1
                fetch_entries += operation.partition_count
            elif isinstance(operation, ProduceOperation):
                produces += 1
                produce_entries += operation.undecided_count
        deletes = len(broker.fetching.low_watermarks)
        # ElectLeaders is answered when the election is committed; it watches no partition.
        waiting = (
            ("Produce", produce_entries, produces),
            ("Fetch", fetch_entries, fetches),
            ("DeleteRecords", deletes, deletes),
            ("ElectLeader", 0, 0),
        )
        for kind, entries, operations in waiting:
            page.add(table.PURGATORY_SIZE, entries, kind)
            page.add(table.DELAYED_OPERATIONS, operations, kind)
        counters = broker.counters
        page.add(table.PRODUCE_EXPIRES, counters.produce_expiries_total)
        for key, count in counters.produce_expiries.items():
            page.add(table.PRODUCE_EXPIRES, count, key.topic, key.partition)
        page.add(table.FETCH_EXPIRES, counters.follower_fetch_expiries, "follower")
        page.add(table.FETCH_EXPIRES, counters.fetch_expiries, "consumer")
        page.add(table.DELETE_EXPIRES, broker.fetching.low_watermarks.expired_count)
        page.add(table.FETCH_SESSIONS, len(broker.fetching.sessions))
        page.add(table.FETCH_SESSION_PARTITIONS, broker.fetching.sessions.partition_count)
        page.add(table.FETCH_SESSION_EVICTIONS, broker.fetching.sessions.evicted_count)

    def _add_traffic(self, page: Page) -> None:
        counters = self._broker.counters
        page.add(table.REPLICATION_BYTES_IN, counters.replication.bytes_in)
        page.add(table.REPLICATION_BYTES_OUT, counters.replication.bytes_out)
        page.add(table.REASSIGNMENT_BYTES_IN, counters.replication.moved_in)
        page.add(table.REASSIGNMENT_BYTES_OUT, counters.replication.moved_out)
        page.add(table.INVALID_MAGIC, counters.invalid_batches[Fault.MAGIC])
        page.add(table.INVALID_CRC, counters.invalid_batches[Fault.CHECKSUM])
        page.add(table.INVALID_OFFSETS, counters.invalid_batches[Fault.OFFSETS])
        page.add(table.NO_KEY, counters.invalid_batches[Fault.KEYLESS])
        page.add(table.FETCHED_BYTES, counters.memory_read_bytes, "memory")
        page.add(table.FETCHED_BYTES, counters.disk_read_bytes, "disk")
        for (name, version), count in _requests(self._broker.dispatcher.counts).items():
            page.add(table.REQUESTS, count, name, version)

    async def _add_groups(self, page: Page, detail: str) -> None:
        known = self._broker.lag.surveys
        if known is not None:
            await GroupSamples(page, self._broker.clock, detail).write(*known)

    def _add_relinquishing(self, page: Page) -> None:
        counters = self._broker.counters
        page.add(table.ISR_SHRINKS, counters.isr_shrinks)
        page.add(table.ISR_EXPANDS, counters.isr_expands)
        page.add(table.FAILED_ISR_UPDATES, counters.failed_isr_updates)
        page.add(table.PENDING_CAP_EXCEEDED, counters.pending_cap_exceeded)
        page.add(table.LEADER_RELINQUISHES, counters.relinquished)
        for reason in SkipReason:
            count = counters.relinquish_skipped.get(reason.value, 0)
            page.add(table.LEADER_RELINQUISHES_SKIPPED, count, reason.value)
        page.add_histogram(table.FOLLOWER_FETCH_PROCESS_TIME, counters.fetch_process_ms)

    async def _add_throttles(self, page: Page) -> None:
        throttles, clock = self._broker.throttles, self._broker.clock
        now_ms = clock.mono_ms()
        page.add(table.LEADER_BYTE_RATE, throttles.leader.states[""].rate.rate(now_ms))
        page.add(table.FOLLOWER_BYTE_RATE, throttles.follower.states[""].rate.rate(now_ms))
        page.add(table.THROTTLE_STRICT, int(throttles.leader.mode is ThrottleMode.STRICT))
        for role in throttles.roles:
            await asyncio.sleep(0)
            now_ms = clock.mono_ms()
            role.look(now_ms)
            page.add(table.THROTTLED_PARTITIONS, sum(1 for held in role.held() for _ in held.replicas), role.role)
            for move_id, state in role.states.items():
                if state.limit_bytes_per_s != UNLIMITED:
                    page.add(table.THROTTLE_LIMIT, state.limit_bytes_per_s, role.role, move_id)
                page.add(table.THROTTLE_RATE, state.rate.rate(now_ms), role.role, move_id)
                page.add(table.THROTTLE_TIME_RATIO, state.held.ratio(now_ms), role.role, move_id)
        await asyncio.sleep(0)

    def _add_clients(self, page: Page) -> None:
        server = self._broker.dispatcher
        connections = {"client": 0, "internal": 0}
        for connection in server.connections:
            connections[connection.listener] += 1
        for listener, count in connections.items():
            page.add(table.CONNECTIONS, count, listener)
        memory, places = server.clients.memory, server.clients.places
        page.add(table.MEMORY_POOL_USED, memory.held_bytes)
        page.add(table.MEMORY_POOL_AVAILABLE, memory.room_bytes())
        page.add(table.EXPIRED_CONNECTIONS, server.clients.idle.closed_count)
        page.add(table.CONNECTIONS_HELD_BACK, memory.held_back_count, "memory")
        page.add(table.CONNECTIONS_HELD_BACK, places.waiting_count, "place")
        page.add(table.CONNECTIONS_REFUSED, places.refused_count, "address")
        page.add(table.CONNECTIONS_REFUSED, places.evicted_count, "place")
        page.add(table.CONNECTIONS_REFUSED, memory.closed_count, "memory")

    def _add_identity(self, page: Page) -> None:
        broker, image = self._broker, self._broker.image
        page.add(table.BROKER_INFO, 1, broker.broker_id, image.cluster_id, broker.config.broker_rack or "", __version__)
        record = image.brokers.get(broker.broker_id)
        page.add(table.BROKER_STATE, _state_of(record))
        page.add(table.METADATA_VERSION, image.version)
        page.add(table.BROKER_EPOCH, broker.broker_epoch)
        page.add(table.CONTROLLER_EPOCH, image.controller_epoch)
        holds = broker.dispatcher.holds
        page.add_histogram(table.LOOP_HOLDS, holds.held_ms, per_unit=1_000)
        page.add(table.LONGEST_LOOP_HOLD, holds.longest_ms / 1_000)
        page.add_histogram(table.OWN_LOOP_HOLDS, holds.own_ms, per_unit=1_000)
        for family, by_work in (
            (table.LONGEST_HOLD_BY_WORK, holds.longest_by_work),
            (table.LONGEST_OWN_HOLD_BY_WORK, holds.longest_own_by_work),
        ):
            for work, longest_ms in by_work.items():
                name = work if isinstance(work, str) else ApiKey(work).name.title().replace("_", "")
                page.add(family, longest_ms / 1_000, name)
        if broker.faults.registry is not None:
            for fault in broker.faults.registry.describe():
                page.add(table.FAULT_HITS, fault["hits"], fault["id"], fault["kind"])
        if self._process is not None:
            figures = self._process()
            page.add(table.CPU_SECONDS, figures.cpu_s)
            page.add(table.RESIDENT_MEMORY, figures.resident_bytes)
            page.add(table.VIRTUAL_MEMORY, figures.virtual_bytes)
            page.add(table.OPEN_FDS, figures.open_descriptors)
            page.add(table.MAX_FDS, figures.descriptors_max)
            page.add(table.START_TIME, figures.started_s)


def _state_of(record: BrokerRecord | None) -> int:
    if record is None or record.fenced:
        return _FENCED
    return _LEAVING if record.shutting_down else _RUNNING


def _add_topic(page: Page, counters: TopicCounters, *topic: str) -> None:
    page.add(table.BYTES_IN, counters.bytes_in, *topic)
    page.add(table.BYTES_OUT, counters.bytes_out, *topic)
    page.add(table.MESSAGES_IN, counters.messages_in, *topic)
    page.add(table.BYTES_REJECTED, counters.bytes_rejected, *topic)
    page.add(table.PRODUCE_REQUESTS, counters.produces, *topic)
    page.add(table.FAILED_PRODUCE_REQUESTS, counters.failed_produces, *topic)
    page.add(table.FETCH_REQUESTS, counters.fetches, *topic)
    page.add(table.FAILED_FETCH_REQUESTS, counters.failed_fetches, *topic)


def _requests(counts: dict[int, int]) -> dict[tuple[str, int], int]:
    """Return the number of requests by API and version."""
    named: dict[tuple[str, int], int] = {}
    for kind, count in counts.items():
        is_internal = kind < 0
        key, version = divmod(~kind if is_internal else kind, 1 << KIND_SHIFT)
        name = ApiKey(key).name.title().replace("_", "")
        if key == ApiKey.FETCH:
            name += "Follower" if is_internal else "Consumer"
        named[name, version] = named.get((name, version), 0) + count
    return named
