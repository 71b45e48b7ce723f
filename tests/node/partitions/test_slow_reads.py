"""A leader whose disk is slow (KIP-501), on unmodified nodes: without the feature, with solution 1, with both."""

from typing import Any

import pytest

from syncline.core.replication.effects import IsrChange
from syncline.model import events as journal
from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import ConfigError
from syncline.model.errors import ErrorCode
from syncline.model.reasons import Reason
from syncline.node.metadata.live_configs import slow_read_rules
from syncline.wire.api import ApiKey
from tests.node.wire_client import batch
from tests.node.world import World

LAG_MS = 1_000
READ_MS = 20_000
OFF = {
    "replica_lag_time_max_ms": LAG_MS,
    "min_insync_replicas": 2,
    # Without them a partition whose in-sync replicas have all gone has no leader.
    "eligible_leader_replicas_enable": "false",
    "leader_relinquish_min_tenure_ms": 0,
}
PROTECTS = {**OFF, "follower_fetch_pending_reads_insync_enable": "true", "leader_relinquish_enable": "false"}
RELINQUISHES = {**PROTECTS, "leader_relinquish_enable": "true"}


async def slow_leader(world: World) -> None:
    """Let broker 1 lead t-0 of three replicas, then let its disk become slow, and produce."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    await world.until(lambda: world.partition(1).high_watermark == 1)
    world.slow_disk(1, READ_MS)
    for _ in range(3):
        await client.produce("t", batch(), acks=1)


def events(world: World, broker_id: int = 1) -> list[journal.Event]:
    """Collect a broker's events from now on."""
    told: list[journal.Event] = []
    world.broker(broker_id).journal.on_event = told.append
    return told


def protected_count(world: World) -> int:
    """Return how many members of ISRs are spared by the first broker."""
    leaders = [partition.leader for partition in world.broker(1).partitions.values() if partition.leader is not None]
    return sum(len(leader.slow_leader.spared) for leader in leaders if leader.slow_leader is not None)


def unsettled(world: World) -> int:
    """Return how many partitions the next tick of the first broker would look at."""
    return len(world.broker().isr_ticks.unsettled)


async def alter(world: World, name: str, value: str) -> Any:
    """Alter a configuration of the whole cluster, and give reachable brokers time to apply it."""
    client = await world.client(1)
    answer = await client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": 4,
                "resource_name": "",
                "configs": [{"name": name, "config_operation": 0, "value": value}],
            }
        ],
        validate_only=False,
    )
    await world.later(0.05)
    return answer.responses[0]


@pytest.mark.brokers(3, **OFF)
async def test_d01_slow_leader_loses_its_followers_and_then_the_partition(world: World) -> None:
    """No follower is spared: both leave, and with the leader's death the partition has no leader."""
    await slow_leader(world)
    await world.until(lambda: world.partition(1).isr == (1,))
    took_s = world.loop.time()
    world.kill(1)
    await world.until(lambda: world.broker(2).image.brokers[1].fenced)

    assert took_s < 10
    assert not world.partition(2).record.has_leader
    assert world.broker(2).fetching.slow_reads.pending_count == 0


@pytest.mark.brokers(3, **PROTECTS)
async def test_d02_slow_leader_keeps_its_followers_and_its_death_harms_nobody(world: World) -> None:
    """They wait for its disk, so they stay in the ISR; when it dies one of them leads."""
    await slow_leader(world)
    told = events(world)
    await world.later(5)
    slow_reads = world.broker(1).fetching.slow_reads
    seen = (world.partition(1).isr, slow_reads.pending_count, protected_count(world), world.partition(1).is_leader)
    world.kill(1)
    await world.until(lambda: world.partition(2).is_leader or world.partition(3).is_leader)

    assert seen == ((1, 2, 3), 2, 2, True)
    assert [(each.kind, each.subject, each.phase) for each in told if isinstance(each, journal.Observation)] == [
        ("protection", 2, "begin"),
        ("protection", 3, "begin"),
    ]


@pytest.mark.brokers(3, **PROTECTS)
async def test_d02_served_followers_are_in_sync_by_themselves_again(world: World) -> None:
    """When the reads have ended no follower is protected, and none had left."""
    await slow_leader(world)
    told = events(world)
    await world.later(5)
    world.slow_disk(1, 0)
    await world.until(lambda: world.partition(1).high_watermark == 4)
    await world.later(2)

    assert world.partition(1).isr == (1, 2, 3)
    assert world.broker(1).fetching.slow_reads.pending_count == 0
    assert not [each for each in told if isinstance(each, journal.IsrChange)]
    seen = [each for each in told if isinstance(each, journal.Observation) and each.kind == "protection"]
    assert [each.phase for each in seen] == ["begin", "begin", "end", "end"]
    assert {each.since_ms for each in seen if each.subject == 2} == {seen[0].since_ms}
    assert world.broker(1).counters.fetch_process_ms.total > 2 * 15_000


@pytest.mark.brokers(3, **RELINQUISHES)
async def test_d03_slow_leader_gives_the_partition_away(world: World) -> None:
    """Within a second another one leads; nothing is lost, and the old leader follows."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    await world.until(lambda: world.partition(1).high_watermark == 1)
    told = events(world)
    world.slow_disk(1, READ_MS)
    await client.produce("t", batch(), acks=1)
    began_s = world.loop.time()
    await world.until(lambda: world.partition(1).record.leader != 1)
    took_s = world.loop.time() - began_s

    assert took_s < 1.1
    record = world.partition(1).record
    assert (record.leader, record.leader_epoch, set(record.isr)) == (2, 1, {1, 2, 3})
    assert record.replicas == (1, 2, 3)
    await world.later(1)
    slow_reads = world.broker(1).fetching.slow_reads
    assert (slow_reads.pending_count, len(slow_reads.waiting_fetches)) == (0, 0), "it owes nothing as a follower"
    assert world.broker(1).counters.relinquished == 1
    assert [(each.change, each.outcome, each.rule) for each in told if isinstance(each, journal.IsrChange)] == [
        ("relinquish", "committed", "relinquish:slow-read")
    ]
    elections = [each.reason for each in told if isinstance(each, journal.Election)]
    assert elections in ([], [Reason.RELINQUISHED])


@pytest.mark.brokers(3, **RELINQUISHES)
async def test_d03_read_that_ends_late_is_a_reason_as_well(world: World) -> None:
    """525 ms (420, and a quarter to notice) end between two looks of the watchdog: the end of the read shows it."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    await world.until(lambda: world.partition(1).high_watermark == 1)
    world.slow_disk(1, 420)
    began_s = world.loop.time()
    await client.produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(1).record.leader != 1)

    assert 0.52 <= world.loop.time() - began_s < 0.6


@pytest.mark.brokers(3, **RELINQUISHES)
async def test_d14_stuck_fetch_is_answered_when_the_leader_changes(world: World) -> None:
    """A follower does not wait for a disk that does not matter any more."""
    await slow_leader(world)
    await world.until(lambda: world.broker(1).fetching.slow_reads.pending_count > 0)
    operations = list(world.broker(1).fetching.slow_reads.waiting_fetches)
    await world.until(lambda: not world.partition(1).is_leader)
    began_s = world.loop.time()
    await world.until(lambda: all(each.is_answered for each in operations))

    assert operations
    assert world.loop.time() - began_s < 0.01


@pytest.mark.brokers(3, **{**RELINQUISHES, "leader_relinquish_min_tenure_ms": 600_000})
async def test_d20_reason_to_stay_is_counted(world: World) -> None:
    """Within its tenure the leader stays, and says why."""
    await slow_leader(world)
    await world.later(3)

    assert world.partition(1).is_leader
    skipped = world.broker(1).counters.relinquish_skipped
    assert list(skipped) == ["tenure"]
    assert skipped["tenure"] <= 2, "once per request"


@pytest.mark.brokers(3, **PROTECTS)
async def test_d23_feature_is_switched_off_at_run_time(world: World) -> None:
    """Protection ends at once: both are judged as ever."""
    await slow_leader(world)
    await world.later(5)
    assert world.partition(1).isr == (1, 2, 3)
    await alter(world, "follower.fetch.pending.reads.insync.enable", "false")
    await world.until(lambda: world.partition(1).isr == (1,))

    assert world.broker(1).fetching.slow_reads.pending_count == 0


@pytest.mark.brokers(2, replica_lag_time_max_ms=2_000, replica_fetch_wait_max_ms=500)
async def test_lag_mode_is_switched_for_the_whole_cluster_at_run_time(world: World) -> None:
    """All partitions use the new rule at once, members get a full window, and the switch evicts none."""
    await world.topic("s", replicas=(1, 2))
    await world.topic("t", replicas=(2, 1))
    client = await world.client(1)
    await client.produce("s", batch())
    await world.later(10)
    for mode in ("messages", "lag-begin", "time"):
        await alter(world, "replica.lag.mode", mode)
        leaders = (world.partition(1, "s").leader, world.partition(2, "t").leader)
        assert [leader.settings.lag.name for leader in leaders] == [mode, mode]
        await world.later(6)
        assert [leader.isr for leader in leaders] == [(1, 2), (2, 1)]


@pytest.mark.brokers(2, replica_lag_time_max_ms=2_000, broker_session_timeout_ms=60_000)
async def test_lag_mode_messages_takes_effect_at_run_time(world: World) -> None:
    """A silent follower of an idle partition stays by the rule of time, and leaves by that of messages."""
    await world.topic(replicas=(1, 2))
    await (await world.client()).produce("t", batch())
    await world.until(lambda: world.partition(1).high_watermark == 1)
    world.network.cut("broker-2", "broker-1")
    await world.later(6)
    assert world.partition(1).isr == (1, 2)
    await alter(world, "replica.lag.mode", "messages")
    await world.until(lambda: world.partition(1).isr == (1,))
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: world.partition(1).isr == (1, 2))


@pytest.mark.brokers(2, replica_lag_time_max_ms=20_000)
@pytest.mark.interpreted
async def test_interval_of_the_ticks_changes_at_run_time(world: World) -> None:
    """The next tick comes by the new interval, not by the old one."""
    await world.topic(replicas=(1, 2))
    ticks = []
    isr_ticks = world.broker(1).isr_ticks
    tick = isr_ticks.tick
    isr_ticks.tick = lambda: ticks.append(1) or tick()
    await alter(world, "replica.lag.check.interval.ms", "100")
    ticks.clear()
    await world.later(1.01)

    assert 9 <= len(ticks) <= 11


@pytest.mark.brokers(1, replica_lag_time_max_ms=30_000)
async def test_cap_below_the_lag_window_is_refused(world: World) -> None:
    """Followers would be spared for less time than the rule gives them anyway."""
    result = await alter(world, "follower.fetch.pending.insync.max.ms", "29999")

    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "should be -1 or at least replica.lag.time.max.ms (30000)" in result.error_message


@pytest.mark.brokers(2)
async def test_idle_partitions_are_not_ticked(world: World) -> None:
    """After a tick that found everything settled no tick looks at a partition until something moves."""
    await world.topic(partitions=20)
    broker = world.broker(1)
    world.call(1, broker.isr_ticks.tick)
    await world.later(0.01)
    world.call(1, broker.isr_ticks.tick)
    await world.later(0.01)
    assert unsettled(world) == 0

    led = next(each for each in broker.partitions.values() if each.is_leader)
    await (await world.client()).produce(led.key.topic, batch(), partition=led.key.partition)

    assert unsettled(world) == 1


def test_kinds_of_isr_changes_have_names_in_the_journal() -> None:
    """A proposal to give a partition away is journalled under its own name."""
    assert IsrChange.RELINQUISH.value == "relinquish"


@pytest.mark.brokers(
    3,
    **{**PROTECTS, "follower_fetch_pending_insync_max_ms": LAG_MS, "log_dir_stuck_read_offline": "true"},
)
async def test_d11_disk_that_never_answers_is_given_up_if_configured(world: World) -> None:
    """Beyond the cap the replica goes offline, and another broker leads."""
    told: list[str] = []
    world.node(1).on_unfit = told.append
    await slow_leader(world)
    await world.until(lambda: world.partition(1).is_offline)
    took_s = world.loop.time()
    await world.until(lambda: world.partition(2).is_leader or world.partition(3).is_leader)
    await world.until(lambda: told)
    # A broker with a failed log does not stop in good order.
    world.kill(1)

    assert took_s < 5
    assert ["a read has not returned for" in reason for reason in told] == [True]


def test_cap_is_never_shorter_than_a_lag_window() -> None:
    """A default that does not fit a long window is stretched; -1 is for ever."""
    on = {"follower.fetch.pending.reads.insync.enable": "true"}
    caps = [
        slow_read_rules(BrokerConfig.resolve({**on, **more})).cap_ms
        for more in ({}, {"replica.lag.time.max.ms": "600000"}, {"follower.fetch.pending.insync.max.ms": "-1"})
    ]

    assert caps == [180_000, 600_000, None]
    assert slow_read_rules(BrokerConfig()) is None


def test_cap_below_the_lag_window_is_refused_at_the_start() -> None:
    """An explicit value is not stretched silently."""
    with pytest.raises(ConfigError, match="should be -1 or at least"):
        BrokerConfig.resolve({"follower.fetch.pending.insync.max.ms": "29999"})


@pytest.mark.brokers(3, **PROTECTS)
async def test_relinquishing_is_switched_on_while_followers_wait(world: World) -> None:
    """The watchdog begins with requests that already wait: their followers will not send them again."""
    await slow_leader(world)
    await world.later(2)
    assert world.broker(1).fetching.slow_reads.pending_count == 2
    began_s = world.loop.time()
    await alter(world, "leader.relinquish.enable", "true")
    await world.until(lambda: world.partition(1).record.leader != 1)

    assert world.loop.time() - began_s < 1


@pytest.mark.brokers(3, **PROTECTS)
async def test_protection_is_told_to_have_ended_with_the_leadership(world: World) -> None:
    """No protection in the journal goes on for ever."""
    await slow_leader(world)
    await world.later(5)
    assert protected_count(world) == 2
    told = events(world)
    leaving = world.as_broker(1, world.node(1).stop())
    await world.until(lambda: not world.partition(1).is_leader)
    seen = [each for each in told if isinstance(each, journal.Observation) and each.kind == "protection"]
    await leaving

    assert [(each.subject, each.phase, each.evidence["rule"]) for each in seen] == [
        (2, "end", "pending-fetch:leadership-ended"),
        (3, "end", "pending-fetch:leadership-ended"),
    ]
