"""Values of the metrics against the actions and the state of the brokers."""

import gc

import pytest

from syncline import __version__
from syncline.core.fetching.session_bytes import session_bytes
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.metadata import MetadataImage
from syncline.node.metrics.scrape import ProcessFigures, Scraper
from syncline.records.batch import BatchHeader
from syncline.wire.api import ApiKey
from tests.node.metrics.scraping import Samples, scrape
from tests.node.wire_client import at, batch
from tests.node.world import World

TRAFFIC = "kafka_server_brokertopicmetrics"
MANAGER = "kafka_server_replicamanager"
T0 = {"topic": "t", "partition": 0}
three = pytest.mark.brokers(3)
quick = pytest.mark.brokers(3, replica_lag_time_max_ms=2_000)


async def test_empty_broker_has_every_metric_that_needs_no_labels(world: World) -> None:
    """A name that appears with the first incident cannot be alerted on."""
    samples = await scrape(world)

    for name in (
        f"{MANAGER}_underreplicatedpartitions",
        f"{MANAGER}_isrshrinks_total",
        f"{MANAGER}_pendingfollowerfetches",
        f"{MANAGER}_followerfetchprocesstimems_count",
        f"{TRAFFIC}_bytesin_total",
        f"{TRAFFIC}_invalidmessagecrcrecords_total",
        "kafka_server_delayedproducemetrics_expires_total",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_controller_controllerstats_uncleanleaderelections_total",
    ):
        assert samples[name] == 0
    assert samples.of(f"{MANAGER}_leaderrelinquishskipped_total", reason="tenure") == 0
    assert samples.of("kafka_server_replicafetchermanager_maxlag", clientid="Replica") == 0
    assert samples.of("kafka_server_replicafetchermanager_minfetchrate", clientid="Replica") == 0


@three
async def test_partitions_say_what_their_leader_knows(world: World) -> None:
    """One broker leads and has the numbers, the others have zeros; all have their logs' figures."""
    await world.topic(replicas=(1, 2, 3), min_insync_replicas=2)
    client = await world.client()
    await client.produce("t", batch(5))
    await world.until(lambda: world.partition(2).high_watermark == world.partition(3).high_watermark == 5)
    leader, follower = await scrape(world, 1), await scrape(world, 2)

    def row(samples: Samples) -> list[float]:
        names = ("underreplicated", "underminisr", "atminisr", "insyncreplicascount", "replicascount")
        return [samples.of(f"kafka_cluster_partition_{name}", **T0) for name in names]

    assert row(leader) == [0, 0, 0, 3, 3]
    assert row(follower) == [0, 0, 0, 0, 0]
    assert (leader[f"{MANAGER}_leadercount"], leader[f"{MANAGER}_partitioncount"]) == (1, 1)
    assert (follower[f"{MANAGER}_leadercount"], follower[f"{MANAGER}_partitioncount"]) == (0, 1)
    for broker_id, samples in ((1, leader), (2, follower)):
        assert samples.of("kafka_cluster_partition_laststableoffsetlag", **T0) == 0
        log = world.partition(broker_id).log
        assert samples.of("kafka_log_log_logendoffset", **T0) == log.log_end == 5
        assert samples.of("kafka_log_log_logstartoffset", **T0) == 0
        assert samples.of("kafka_log_log_size", **T0) == log.size_bytes
        assert samples.of("kafka_log_log_numlogsegments", **T0) == 1
        assert samples.of("syncline_partition_high_watermark", **T0) == 5
        assert samples.of("syncline_partition_leader_epoch", **T0) == world.partition(1).leader_epoch
    assert leader.all_of("syncline_follower_lag_records") == {("t", "0", "2"): 0, ("t", "0", "3"): 0}
    assert leader.all_of("syncline_follower_lag_seconds") == {("t", "0", "2"): 0, ("t", "0", "3"): 0}
    assert follower.all_of("kafka_server_fetcherlagmetrics_consumerlag") == {("ReplicaFetcherThread-0-1", "t", "0"): 0}


@three
async def test_f21_replica_that_is_being_added_is_not_missed(world: World) -> None:
    """Under-replicated is measured by the replicas that were there before; that there is a reassignment is counted."""
    await world.topic(replicas=(1, 2, 3), min_insync_replicas=1)
    await world.until(lambda: len(world.partition().isr or ()) == 3)
    partition = world.partition()
    assert partition.record is not None
    partition.record = partition.record._replace(adding=(BrokerId(3),))
    samples = await scrape(world)

    assert samples.of("kafka_cluster_partition_replicascount", **T0) == 2
    assert samples.of("kafka_cluster_partition_underreplicated", **T0) == 0
    assert samples[f"{MANAGER}_underreplicatedpartitions"] == 0
    assert samples[f"{MANAGER}_reassigningpartitions"] == 1


@quick
async def test_lost_follower_is_seen_in_every_metric_that_is_there_for_it(world: World) -> None:
    """It falls behind, the in-sync set shrinks once, the partition is under-replicated; then it all goes back."""
    await world.topic(replicas=(1, 2, 3), min_insync_replicas=2)
    client = await world.client()
    await client.produce("t", batch())
    before = await scrape(world)
    world.kill(3)
    await client.produce("t", batch(4))
    await world.until(lambda: world.partition().isr == (1, 2))
    without = await scrape(world)
    await world.start(3)
    await world.until(lambda: len(world.partition().isr or ()) == 3)
    after = await scrape(world)

    def row(samples: Samples) -> list[float]:
        return [
            samples[f"{MANAGER}_underreplicatedpartitions"],
            samples.of("kafka_cluster_partition_underreplicated", **T0),
            samples[f"{MANAGER}_atminisrpartitioncount"],
            samples.of("kafka_cluster_partition_atminisr", **T0),
            samples.of("kafka_cluster_partition_insyncreplicascount", **T0),
            samples.of("syncline_follower_lag_records", **T0, follower=3),
        ]

    assert row(before) == [0, 0, 0, 0, 3, 0]
    assert row(without) == [1, 1, 1, 1, 2, 4]
    assert row(after) == [0, 0, 0, 0, 3, 0]
    assert without.of("syncline_follower_lag_seconds", **T0, follower=3) > 1
    assert before[f"{MANAGER}_isrexpands_total"] == 0
    assert after[f"{MANAGER}_isrexpands_total"] == 1


@quick
async def test_shrink_that_the_leader_asked_for_is_counted_once(world: World) -> None:
    """One per confirmed change, not per replica; the controller's own changes are not the leader's."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    for follower in (2, 3):
        world.network.cut(f"broker-{follower}", "broker-1")
    await client.produce("t", batch(), acks=1)
    await world.until(lambda: world.partition().isr == (1,))
    samples = await scrape(world)
    for follower in (2, 3):
        world.network.heal(f"broker-{follower}", "broker-1")

    assert samples[f"{MANAGER}_isrshrinks_total"] <= 1
    assert samples[f"{MANAGER}_underreplicatedpartitions"] == 1


@three
async def test_under_min_isr_is_seen(world: World) -> None:
    """The set is smaller than it must be for acks=all."""
    await world.topic(replicas=(1, 2, 3), min_insync_replicas=3)
    world.kill(3)
    await world.until(lambda: world.partition().isr == (1, 2))
    samples = await scrape(world)

    assert samples[f"{MANAGER}_underminisrpartitioncount"] == 1
    assert samples.of("kafka_cluster_partition_underminisr", **T0) == 1
    assert samples.of("kafka_cluster_partition_atminisr", **T0) == 0


@three
async def test_traffic_is_counted_where_it_passes(world: World) -> None:
    """In once, at the leader; replication out of it and into the followers; out to the consumer."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    records = batch(7)
    await client.produce("t", records)
    await client.produce("t", records, acks=1)
    await world.until(lambda: world.partition(2).log.log_end == world.partition(3).log.log_end == 14)
    row = await client.fetch("t")
    one, two, three_ = [await scrape(world, broker_id) for broker_id in (1, 2, 3)]
    size_bytes = world.partition().log.size_bytes

    assert size_bytes == 2 * len(records)
    assert one[f"{TRAFFIC}_bytesin_total"] == one.of(f"{TRAFFIC}_bytesin_total", topic="t") == size_bytes
    assert one[f"{TRAFFIC}_messagesin_total"] == one.of(f"{TRAFFIC}_messagesin_total", topic="t") == 14
    assert one.of(f"{TRAFFIC}_totalproducerequests_total", topic="t") == 2
    assert one.of(f"{TRAFFIC}_bytesout_total", topic="t") == len(row.records)
    assert one[f"{TRAFFIC}_replicationbytesout_total"] == 2 * size_bytes
    assert two[f"{TRAFFIC}_replicationbytesin_total"] == three_[f"{TRAFFIC}_replicationbytesin_total"] == size_bytes
    assert two[f"{TRAFFIC}_bytesin_total"] == three_[f"{TRAFFIC}_bytesin_total"] == 0
    labels = {"clientid": "ReplicaFetcherThread-0-1", "brokerhost": "broker-1", "brokerport": 9093}
    assert two.of("kafka_server_fetcherstats_bytes_total", **labels) == size_bytes
    fetches = two.of("kafka_server_fetcherstats_requests_total", **labels)
    assert 2 < fetches <= world.fetcher(2, 1).fetch_count
    assert two.of("kafka_server_replicafetchermanager_minfetchrate", clientid="Replica") > 0
    assert one.of("syncline_fetch_read_bytes_total", source="memory") == 2 * size_bytes + len(row.records)


async def test_counters_never_go_down_when_topics_go(world: World) -> None:
    """The counts of a deleted topic stay in the totals; its own samples disappear."""
    await world.topic("t")
    await world.topic("u")
    client = await world.client()
    await client.produce("t", batch(3))
    await client.produce("u", batch(2))
    before = await scrape(world)
    await world.delete_topic("t")
    await world.until(lambda: TopicPartition("t", 0) not in world.broker().partitions)
    after = await scrape(world)

    assert before[f"{TRAFFIC}_messagesin_total"] == after[f"{TRAFFIC}_messagesin_total"] == 5
    assert before[f"{TRAFFIC}_bytesin_total"] == after[f"{TRAFFIC}_bytesin_total"]
    assert not after.has(f"{TRAFFIC}_bytesin_total", topic="t")
    assert after.of(f"{TRAFFIC}_messagesin_total", topic="u") == 2
    assert not after.has("kafka_log_log_size", **T0)


async def test_refused_batches_are_counted_by_what_was_wrong(world: World) -> None:
    """Checksum, format, counts, missing keys, size; and only what is unexpected is a failed request."""
    await world.topic("t", max_message_bytes=500)
    await world.topic("compacted", cleanup_policy="compact")
    client = await world.client()
    good = batch()
    flipped = bytearray(good)
    flipped[-1] ^= 1
    old = bytearray(good)
    old[16] = 1
    miscounted = bytearray(batch(2))
    miscounted[57:61] = (3).to_bytes(4, "big")
    _seal(miscounted)
    large = batch(size_bytes=1_000)
    codes = [
        (await client.produce(topic, bytes(each))).error_code
        for topic, each in (
            ("t", flipped),
            ("t", old),
            ("t", miscounted),
            ("t", large),
            ("compacted", _keyless()),
            ("nowhere", good),
        )
    ]
    samples = await scrape(world)

    assert codes == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert samples[f"{TRAFFIC}_invalidmessagecrcrecords_total"] == 1
    assert samples[f"{TRAFFIC}_invalidmagicnumberrecords_total"] == 1
    assert samples[f"{TRAFFIC}_invalidoffsetorsequencerecords_total"] == 1
    assert samples[f"{TRAFFIC}_nokeycompactedtopicrecords_total"] == 1
    assert samples.of(f"{TRAFFIC}_bytesrejected_total", topic="t") == len(large)
    assert samples.of(f"{TRAFFIC}_failedproducerequests_total", topic="t") == 2
    assert samples.of(f"{TRAFFIC}_failedproducerequests_total", topic="compacted") == 1
    assert samples[f"{TRAFFIC}_failedproducerequests_total"] == 3
    assert samples[f"{TRAFFIC}_totalproducerequests_total"] == 6
    assert not samples.has(f"{TRAFFIC}_bytesin_total", topic="nowhere")


@pytest.mark.brokers(3, broker_session_timeout_ms=20_000, replica_lag_time_max_ms=30_000)
async def test_requests_that_wait_are_counted_while_they_wait(world: World) -> None:
    """Produce until it is replicated, fetch until there is something; and when their time is over, that is counted."""
    await world.topic(replicas=(1, 2, 3), min_insync_replicas=1)
    await (await world.client()).produce("t", batch())
    for follower in (2, 3):
        world.network.cut(f"broker-{follower}", "broker-1")
    client = await world.client()
    produce = client.send_produce("t", batch(), timeout_ms=5_000)
    reader = await world.client()
    fetch = reader.send_fetch({"t": [at(1)]}, max_wait_ms=5_000)
    await world.later(0.1)
    waiting = await scrape(world)
    await world.later(5)
    assert (await client.produced(produce)).error_code == ErrorCode.REQUEST_TIMED_OUT
    await reader.fetched(fetch)
    over = await scrape(world)
    for follower in (2, 3):
        world.network.heal(f"broker-{follower}", "broker-1")

    def purgatory(samples: Samples, kind: str) -> tuple[float, float]:
        prefix = "kafka_server_delayedoperationpurgatory"
        return (
            samples.of(f"{prefix}_numdelayedoperations", delayedoperation=kind),
            samples.of(f"{prefix}_purgatorysize", delayedoperation=kind),
        )

    assert purgatory(waiting, "Produce") == (1, 1)
    assert purgatory(waiting, "Fetch")[0] >= 1
    assert purgatory(over, "Produce") == (0, 0)
    assert purgatory(over, "DeleteRecords") == purgatory(over, "ElectLeader") == (0, 0)
    assert over["kafka_server_delayedproducemetrics_expires_total"] == 1
    assert over.of("kafka_server_delayedproducemetrics_expires_total", **T0) == 1
    assert over.of("kafka_server_delayedfetchmetrics_expires_total", fetchertype="consumer") == 1


@three
async def test_controller_counts_the_cluster_and_others_have_zeros(world: World) -> None:
    """So that the sum over all brokers is the truth."""
    await world.topic("t", partitions=2)
    await world.topic("u", replicas=(3, 1, 2))
    await world.topic("alone", replicas=(3,))
    world.kill(3)
    await world.until(lambda: all(world.partition(1, "u").record.leader != 3 for _ in (1,)))  # type: ignore[union-attr]
    await world.later(1)
    pages = [await scrape(world, broker_id) for broker_id in (1, 2)]
    prefix = "kafka_controller_kafkacontroller"
    image = world.broker().image
    records = [record for topic in image.topics.values() for record in topic.partitions]

    def total(name: str) -> float:
        return sum(page[f"{prefix}_{name}"] for page in pages)

    assert total("activecontrollercount") == 1
    assert (total("activebrokercount"), total("fencedbrokercount")) == (2, 1)
    assert (total("globaltopiccount"), total("globalpartitioncount")) == (3, 4)
    assert total("offlinepartitionscount") == sum(not record.has_leader for record in records) == 1
    assert total("preferredreplicaimbalancecount") == sum(each.leader != each.replicas[0] for each in records) >= 2
    assert total("timedoutbrokerheartbeatcount") == 0


async def test_scrape_keeps_no_metadata_until_the_next_one(world: World) -> None:
    """An old image has every topic that there was, and there may be no other scrape."""
    # Other tests of this process may have left some.
    others = [each for each in gc.get_objects() if isinstance(each, MetadataImage)]
    await world.topic("t")
    await scrape(world)
    await world.delete_topic("t")
    await world.until(lambda: TopicPartition("t", 0) not in world.broker().partitions)
    gc.collect()

    kept = [each for each in gc.get_objects() if isinstance(each, MetadataImage) and "t" in each.topics]
    assert not [each for each in kept if not any(each is other for other in others)]


@three
async def test_unclean_election_is_counted_by_the_controller(world: World) -> None:
    """A replica leads that was out of sync when the last member died; that it has everything is luck."""
    await world.topic(replicas=(3, 2), unclean_leader_election_enable="true")
    client = await world.client(3)
    await client.produce("t", batch())
    world.kill(2)
    await world.until(lambda: world.partition(3).isr == (3,))
    world.kill(3)
    await world.start(2)
    await world.until(lambda: world.partition(2).is_leader)
    counts = [
        (await scrape(world, broker_id))["kafka_controller_controllerstats_uncleanleaderelections_total"]
        for broker_id in (1, 2)
    ]

    watched, world.cluster.ghost.violations = world.cluster.ghost.violations, []

    assert sum(counts) == len(watched) == 1


@three
async def test_broker_fenced_for_its_silence_is_counted_by_the_controller(world: World) -> None:
    """It is alive, but none of its data arrives for a whole session."""
    holder = next(each for each in (1, 2, 3) if world.broker(each).controller.active is not None)
    silent = holder % 3 + 1
    world.network.cut(f"broker-{silent}", f"broker-{holder}")
    await world.until(lambda: world.broker(holder).image.brokers[silent].fenced)  # type: ignore[index]
    samples = await scrape(world, holder)
    world.network.heal(f"broker-{silent}", f"broker-{holder}")

    assert samples["kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount"] == 1
    assert samples["kafka_controller_kafkacontroller_fencedbrokercount"] == 1


async def test_sessions_requests_and_connections_are_counted(world: World) -> None:
    """Connections, requests by version, and fetch sessions."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    await client.fetched(client.send_fetch({"t": [at(0)]}, session=(0, 0)))
    await client.fetch("t")
    samples = await scrape(world)
    requests = samples.all_of("kafka_network_requestmetrics_requests_total")

    assert requests["Produce", "9"] == 1
    assert requests["FetchConsumer", "12"] == 2
    assert requests["BrokerHeartbeat", "1"] >= 1
    assert samples["kafka_server_fetchsessioncache_numincrementalfetchsessions"] == 1
    assert samples["kafka_server_fetchsessioncache_numincrementalfetchpartitionscached"] == 1
    assert samples.of("syncline_connections", listener="client") == len(world.connections())
    assert samples["kafka_network_socketserver_memorypoolused"] == session_bytes(1)
    assert samples["kafka_network_socketserver_memorypoolavailable"] == (4 << 30) - session_bytes(1)
    assert samples["kafka_network_socketserver_expiredconnectionskilledcount"] == 0


@pytest.mark.brokers(1, max_connections_per_ip=2, connections_max_idle_ms=2_000)
async def test_limits_on_connections_are_counted_where_they_strike(world: World) -> None:
    """A refused connection, and an idle one."""
    clients = [await world.client() for _ in range(3)]
    await clients[2].lost()
    await clients[0].lost()
    samples = await scrape(world)

    assert samples.of("syncline_connections_refused_total", reason="address") == 1
    assert samples["kafka_network_socketserver_expiredconnectionskilledcount"] == 2


async def test_api_versions_of_any_version_are_counted_as_version_0(world: World) -> None:
    """A request with an unknown version is answered, and breaks no page."""
    client = await world.client()
    for version in (32_767, 300, 255, 5, -1, -32_768):
        await client.body(client.send(ApiKey.API_VERSIONS, version, b""))
    requests = (await scrape(world)).all_of("kafka_network_requestmetrics_requests_total")

    assert {kind: count for kind, count in requests.items() if kind[0] == "ApiVersions"} == {("ApiVersions", "0"): 6}


async def test_lag_of_consumers_is_a_histogram_of_bytes_and_of_record_time(world: World) -> None:
    """KIP-489: the batch that is fetched counts itself, in bytes; its age is that of the newest record less its own."""
    await world.topic()
    client = await world.client()
    old, new = batch(timestamp_ms=1_000_000), batch(timestamp_ms=1_000_750)
    await client.produce("t", old)
    await client.produce("t", new)
    await client.fetch("t", 0)
    await client.fetch("t", 1)
    await client.fetch("t", 2)
    samples = await scrape(world)
    prefix = f"{TRAFFIC}_consumerfetchlag"

    # The third found nothing: it is at the end, so its lags are 0.
    assert samples[f"{prefix}bytes_count"] == samples[f"{prefix}timeinms_count"] == 3
    assert samples[f"{prefix}bytes_sum"] == len(old) + 2 * len(new)
    assert samples[f"{prefix}timeinms_sum"] == 750
    assert samples.of(f"{prefix}timeinms_bucket", le="1") == 2
    assert samples.of(f"{prefix}timeinms_bucket", le="1024") == 3


async def test_broker_says_who_it_is(world: World) -> None:
    """Name, cluster and version as labels of a one, epochs as values."""
    samples = await scrape(world)
    broker = world.broker()

    assert samples.all_of("syncline_broker_info") == {("1", broker.image.cluster_id, "", __version__): 1}
    assert samples["kafka_server_kafkaserver_brokerstate"] == 3
    assert samples["syncline_metadata_version"] == broker.image.version
    assert samples["syncline_broker_epoch"] == broker.broker_epoch
    assert samples["syncline_controller_epoch"] == broker.image.controller_epoch
    assert not samples.has("process_cpu_seconds_total")


async def test_figures_of_the_process_are_shown_where_they_are_known(world: World) -> None:
    """They come from the operating system: a simulated broker has none."""
    scraper = Scraper(world.broker(), lambda: ProcessFigures(1.5, 2, 3, 4, 5, 6.25))
    samples = Samples(b"".join(await scraper.scrape()).decode())

    assert samples["process_cpu_seconds_total"] == 1.5
    assert [
        samples[f"process_{name}"]
        for name in ("resident_memory_bytes", "virtual_memory_bytes", "open_fds", "max_fds", "start_time_seconds")
    ] == [2, 3, 4, 5, 6.25]


@pytest.mark.brokers(
    2,
    follower_fetch_pending_reads_insync_enable="true",
    replica_lag_time_max_ms=1_000,
    broker_session_timeout_ms=20_000,
)
async def test_follower_that_waits_for_a_slow_disk_is_seen(world: World) -> None:
    """KIP-501: pending fetches, spared followers, and the processing time once it ends."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", batch())
    await world.until(lambda: world.partition(2).log.log_end == 1)
    world.kill(2)
    for _ in range(3):
        await client.produce("t", batch(), acks=1)
    world.slow_disk(1, 8_000)
    await world.start(2)
    await world.until(lambda: world.broker().fetching.slow_reads.pending_count)
    waiting = await scrape(world)
    world.slow_disk(1, 0)
    await world.until(lambda: not world.broker().fetching.slow_reads.pending_count)
    over = await scrape(world)

    assert waiting[f"{MANAGER}_pendingfollowerfetches"] == 1
    assert waiting[f"{MANAGER}_followerfetchprocesstimems_count"] == 0
    assert over[f"{MANAGER}_pendingfollowerfetches"] == 0
    assert over[f"{MANAGER}_followerfetchprocesstimems_count"] == 1
    assert over[f"{MANAGER}_followerfetchprocesstimems_sum"] > 5_000


@pytest.mark.brokers(1, metrics_label_names="kafka")
async def test_labels_are_spelled_as_kafka_does_when_asked_for(world: World) -> None:
    """For dashboards made without lowercaseOutputLabelNames."""
    samples = await scrape(world)

    assert samples.of("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch") == 0
    assert samples.of("kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 0


async def test_idempotent_producers_are_counted_by_partition(world: World) -> None:
    """As many as the logs remember."""
    await world.topic("t", partitions=2)
    client = await world.client()
    for partition in (0, 1):
        await client.produce("t", _idempotent(), partition=partition)

    assert (await scrape(world))[f"{MANAGER}_produceridcount"] == 2


def _seal(records: bytearray) -> None:
    """Write the checksum that the rest asks for."""
    from syncline.records.checksum import crc32c

    records[17:21] = crc32c(memoryview(records)[21:]).to_bytes(4, "big")


def _keyless() -> bytes:
    from syncline.records.builder import BatchBuilder

    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, b"value")
    return bytes(builder.build())


def _idempotent() -> bytes:
    records = bytearray(batch())
    records[43:51] = (77).to_bytes(8, "big")
    records[51:53] = (0).to_bytes(2, "big")
    records[53:57] = (0).to_bytes(4, "big")
    _seal(records)
    assert BatchHeader.parse(records, 0).producer_id == 77
    return bytes(records)
