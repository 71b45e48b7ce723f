"""Renewal of the offsets topic's logs: the oldest part goes, and no group loses anything."""

import asyncio
import random

import pytest

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import OFFSETS_TOPIC, Offset
from syncline.node.groups.log_renewal import STALL_S
from syncline.storage.log import PartitionLog
from syncline.wire.api import ApiKey
from tests.node.groups.stand_in import MemoryPartition, StandInBroker
from tests.node.groups.test_coordinator import beat, commit, committed, play, stable_member
from tests.node.lag.groups import commit as commit_offsets
from tests.node.lag.groups import commit_with, coordinator_of
from tests.node.world import World


async def renewed(broker: StandInBroker, partition: MemoryPartition) -> None:
    """Renew the log as if all of it lay in segments that no longer grow."""
    partition.finished_end = partition.log_end
    broker.groups.renewals.begin()
    await asyncio.sleep(1)


async def begun(broker: StandInBroker) -> MemoryPartition:
    """Commit 7, begin to renew a log that holds nothing else, and return its partition."""
    await commit(broker, 7)
    partition = broker.led()
    partition.finished_end = partition.log_end
    broker.groups.renewals.begin()
    await asyncio.sleep(0)
    return partition


async def taken_over(broker: StandInBroker, group_id: str = "g") -> None:
    """Let another term read what is left of the log."""
    index = broker.groups.partition_of(group_id)
    broker.groups.resigned(index)
    broker.groups.became_leader(index, 1)
    await asyncio.sleep(1)


def test_offsets_and_members_survive_the_records_that_held_them() -> None:
    """A member goes on with its generation."""

    async def story(broker: StandInBroker) -> None:
        member_id = await stable_member(broker)
        for offset in range(20):
            await broker.call(
                ApiKey.OFFSET_COMMIT,
                6,
                group_id="g",
                generation_id_or_member_epoch=1,
                member_id=member_id,
                group_instance_id=None,
                retention_time=-1,
                topics=[_row(offset)],
            )
            await commit(broker, offset, group_id="other")
        for group_id in ("g", "other"):
            partition = broker.led(group_id)
            end = partition.log_end
            await renewed(broker, partition)
            assert partition.log_start == end
            # What the group agreed on, unless it has no members, and its offset.
            assert partition.log_end == end + (2 if group_id == "g" else 1)
            await taken_over(broker, group_id)
            assert await committed(broker, group_id) == (0, 19)
        assert (await beat(broker, member_id)).error_code == 0

    play(story)


def _row(offset: int) -> dict[str, object]:
    return {
        "name": "t",
        "partitions": [
            {
                "partition_index": 0,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
        ],
    }


def test_nothing_is_copied_of_a_group_that_was_deleted() -> None:
    """Its records and its tombstones go together."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 7)
        await broker.call(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])
        partition = broker.led()
        end = partition.log_end
        await renewed(broker, partition)
        assert (partition.log_start, partition.log_end) == (end, end)
        await taken_over(broker)
        assert await committed(broker) == (0, -1)

    play(story)


def test_a_commit_that_comes_meanwhile_is_newer_than_the_copy() -> None:
    """Commits come before and after each step of a renewal."""

    async def story(broker: StandInBroker) -> None:
        for offset in range(10):
            await commit(broker, offset)
        partition = broker.led()
        partition.finished_end = partition.log_end
        broker.groups.renewals.begin()
        for offset in range(10, 40):
            await commit(broker, offset)
            await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert partition.log_start == partition.finished_end
        await taken_over(broker)
        assert await committed(broker) == (0, 39)

    play(story)


def test_the_log_stays_when_a_write_fails_meanwhile() -> None:
    """The key that it would have written has no newer record then."""

    async def story(broker: StandInBroker) -> None:
        partition = await begun(broker)
        partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        refused = await commit(broker, 8)
        partition.refusal = ErrorCode.NONE
        await asyncio.sleep(1)
        assert refused.topics[0].partitions[0].error_code != 0
        assert partition.log_start == 0
        await taken_over(broker)
        assert await committed(broker) == (0, 7)

    play(story)


def test_the_log_stays_until_the_commits_that_came_meanwhile_are_committed() -> None:
    """They have no copies of what was before, and may still be lost with the leadership."""

    async def story(broker: StandInBroker) -> None:
        partition = await begun(broker)
        partition.is_committing = False
        waiting = commit(broker, 8)
        await asyncio.sleep(1)
        assert partition.log_start == 0
        partition.commit()
        await waiting
        await asyncio.sleep(1)
        assert (partition.log_start, partition.synced_end) == (1, 2)

    play(story)


@pytest.mark.parametrize("after", range(6))
def test_the_log_stays_when_the_leadership_ends_meanwhile(after: int) -> None:
    """Copies that are in the log do no harm; the next leader's log decides."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 7)
        partition = broker.led()
        partition.finished_end = partition.log_end
        partition.is_committing = False
        broker.groups.renewals.begin()
        for _ in range(after):
            await asyncio.sleep(0)
        broker.groups.resigned(broker.groups.partition_of("g"))
        partition.commit()
        await asyncio.sleep(1)
        assert partition.log_start == 0
        await taken_over(broker)
        assert await committed(broker) == (0, 7)

    play(story)


def test_a_log_is_renewed_when_it_has_grown_enough() -> None:
    """What has to be copied again and again must be less than half of what goes."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 1)
        partition = broker.led()
        await renewed(broker, partition)
        first = partition.log_start
        await renewed(broker, partition)
        assert first == partition.log_start, "one record would be copied in place of one"
        for offset in range(8):
            await commit(broker, offset)
        await renewed(broker, partition)
        assert partition.log_start > first

    play(story)


def test_a_log_that_cannot_be_committed_holds_up_no_other() -> None:
    """Its renewal is given up after a while, and begins again with the next round."""

    async def story(broker: StandInBroker) -> None:
        stalled, other = sorted(("g", "other"), key=broker.groups.partition_of)
        for group_id in (stalled, other):
            await commit(broker, 7, group_id=group_id)
            broker.led(group_id).finished_end = broker.led(group_id).log_end
        broker.led(stalled).is_committing = False
        waiting = commit(broker, 8, group_id=stalled)
        broker.groups.renewals.begin()
        await asyncio.sleep(2 * STALL_S)
        assert [broker.led(each).log_start for each in (stalled, other)] == [0, 1]
        broker.led(stalled).is_committing = True
        broker.led(stalled).commit()
        await waiting
        broker.groups.renewals.begin()
        await asyncio.sleep(1)
        assert broker.led(stalled).log_start == 1

    play(story)


def test_renewals_that_fail_do_not_make_the_log_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies of one that is given up count as what the next would have to copy."""

    async def story(broker: StandInBroker) -> None:
        partition = broker.led()
        await commit(broker, 7)
        before_copies = [True, False] * 20

        async def until_committed(_end: Offset) -> None:
            if not before_copies.pop(0):
                raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR)

        monkeypatch.setattr(partition, "until_committed", until_committed)
        for _ in range(20):
            await renewed(broker, partition)
        assert (partition.log_start, partition.log_end) == (0, 2)
        monkeypatch.undo()
        for offset in range(8):
            await commit(broker, offset)
        await renewed(broker, partition)
        assert partition.log_start == 10

    play(story)


def test_a_damaged_log_stays_and_other_logs_are_renewed() -> None:
    """A copy of a damaged record would have a checksum that matches."""

    async def story(broker: StandInBroker) -> None:
        damaged, other = sorted(("g", "other"), key=broker.groups.partition_of)
        for group_id in (damaged, other):
            await commit(broker, 7, group_id=group_id)
            broker.led(group_id).finished_end = broker.led(group_id).log_end
        whole = broker.led(damaged).log
        broker.led(damaged).log = whole.replace(b"\x01m", b"\x01n")
        broker.groups.renewals.begin()
        await asyncio.sleep(1)
        assert [(broker.led(each).log_start, broker.led(each).log_end) for each in (damaged, other)] == [(0, 1), (1, 2)]
        assert list(broker.found_damaged) == [broker.groups.partition_of(damaged)]

    play(story)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_last_counts_whatever_comes_between(seed: int) -> None:
    """Commits, deletions, refused and slow writes, renewals and other terms, in any order."""

    async def story(broker: StandInBroker) -> None:
        dice, partition, expected = random.Random(seed), broker.led(), -1
        for number in range(120):
            step = dice.choice(["commit"] * 5 + ["delete", "refuse", "slow", "term"] + ["renew"] * 3)
            if step == "commit":
                assert not (await commit(broker, number)).topics[0].partitions[0].error_code
                expected = number
            elif step == "delete":
                await broker.call(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])
                expected = -1
            elif step == "refuse":
                partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
                assert (await commit(broker, number)).topics[0].partitions[0].error_code
                partition.refusal = ErrorCode.NONE
            elif step == "slow":
                partition.is_committing = False
                waiting = commit(broker, number)
                await asyncio.sleep(dice.choice((0, 0.01)))
                partition.is_committing = True
                partition.commit()
                assert not (await waiting).topics[0].partitions[0].error_code
                expected = number
            elif step == "term":
                await taken_over(broker)
            else:
                partition.finished_end = dice.randint(partition.log_start, partition.log_end)
                broker.groups.renewals.begin()
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            if step == "term":
                assert await committed(broker) == (0, expected)
        assert partition.log_start > 0
        await taken_over(broker)
        assert await committed(broker) == (0, expected)

    play(story)


@pytest.mark.brokers(3, log_retention_check_interval_ms=2_000)
async def test_every_replica_lets_the_oldest_segments_go_and_the_next_coordinator_knows_all(world: World) -> None:
    """Real logs: the log stays small however often a group commits, and what was committed once is still there."""
    await world.topic()
    await world.topic(OFFSETS_TOPIC, replicas=(1, 2, 3), cleanup_policy="compact", internal_segment_bytes=16_384)
    coordinator = await coordinator_of(world, "often")
    await commit_offsets(world, coordinator, "once", {("t", 0): 7})
    await commit_offsets(world, coordinator, "gone", {("t", 0): 8})
    client = await world.client(coordinator)
    await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["gone"])
    for _ in range(4):
        for offset in range(150):
            await commit_with(client, "often", {("t", 0): offset})
        await world.later(5)

    await world.until(lambda: all(_log(world, each).first_base_offset > 400 for each in world.living()))
    assert [_log(world, each).size_bytes < 4 * 16_384 for each in world.living()] == [True] * 3
    world.kill(coordinator)
    successor = await coordinator_of(world, "often")
    found = {each: await offset_of(world, successor, each) for each in ("often", "once", "gone")}

    assert successor != coordinator
    assert found == {"often": 149, "once": 7, "gone": -1}


@pytest.mark.brokers(3)
async def test_a_commit_that_is_lost_with_its_leader_takes_no_older_one_with_it(world: World) -> None:
    """A leader renews its log while it is cut off and gets a commit; it is replaced, follows, and leads again."""
    await world.topic()
    await world.topic(OFFSETS_TOPIC, replicas=(2, 3, 1), cleanup_policy="compact", internal_segment_bytes=4_096)
    assert await coordinator_of(world, "g") == 2
    await commit_offsets(world, 2, "g", {("t", 0): 7})
    client = await world.client(2)
    while _log(world, 2).segment_count < 3:
        await commit_with(client, "often", {("t", 0): 1})
    await world.until(lambda: world.partition(2, OFFSETS_TOPIC).high_watermark == _log(world, 2).log_end)
    links = [(f"broker-{other}", "broker-2") for other in (1, 3)]
    for one, other in links:
        world.network.cut(one, other)
        world.network.cut(other, one)
    world.slow_disk(2, 20)
    world.call(2, world.broker(2).renew_group_logs)
    lost = asyncio.ensure_future(commit_with(client, "g", {("t", 0): 8}))
    await world.until(lambda: world.partition(3, OFFSETS_TOPIC).is_leader)
    world.slow_disk(2, 0)
    for one, other in links:
        world.network.heal(one, other)
        world.network.heal(other, one)
    await world.until(lambda: set(world.partition(3, OFFSETS_TOPIC).isr or ()) == {1, 2, 3})
    await asyncio.gather(lost, return_exceptions=True)
    world.kill(3)
    await world.until(lambda: world.partition(2, OFFSETS_TOPIC).is_leader)

    assert await coordinator_of(world, "g") == 2
    assert await offset_of(world, 2, "g") == 7


@pytest.mark.brokers(3)
async def test_what_was_synced_survives_a_power_cut_when_it_has_become_copies(world: World) -> None:
    """Segments that no longer grow were synced; the copies of their records are in one that grows."""
    await world.topic()
    await world.topic(OFFSETS_TOPIC, replicas=(1, 2, 3), cleanup_policy="compact", internal_segment_bytes=4_096)
    await coordinator_of(world, "once")
    client = await world.client(1)
    await commit_with(client, "once", {("t", 0): 7})
    while _log(world, 1).segment_count < 3:
        await commit_with(client, "often", {("t", 0): 1})
    world.call(1, world.broker(1).renew_group_logs)
    await world.until(lambda: all(_log(world, each).log_start for each in world.living()))

    assert [_log(world, each).recovery_point for each in world.living()] == [_log(world, 1).log_end] * 3


@pytest.mark.brokers(3)
@pytest.mark.parametrize("after_ms", [0, 1])
async def test_the_topic_may_be_deleted_while_its_log_is_read(world: World, after_ms: int) -> None:
    """The files go under the worker that reads them; the log of another life of the topic is renewed all the same."""
    await world.topic()
    for life in range(3):
        await world.topic(OFFSETS_TOPIC, replicas=(1, 2, 3), cleanup_policy="compact", internal_segment_bytes=4_096)
        await coordinator_of(world, "g")
        client = await world.client(1)
        while _log(world, 1).segment_count < 4:
            await commit_with(client, "g", {("t", 0): life})
        world.slow_disk(1, 5 if life < 2 else 0)
        world.call(1, world.broker(1).renew_group_logs)
        await world.later(after_ms / 1_000)
        world.slow_disk(1, 0)
        if life < 2:
            await world.delete_topic(OFFSETS_TOPIC)

    await world.until(lambda: _log(world, 1).log_start)


def _log(world: World, broker_id: int) -> PartitionLog:
    return world.partition(broker_id, OFFSETS_TOPIC).log


async def offset_of(world: World, broker_id: int, group_id: str) -> int:
    """Return what a group has committed of t-0."""
    client = await world.client(broker_id)
    answer = await client.ask(
        ApiKey.OFFSET_FETCH,
        7,
        group_id=group_id,
        topics=[{"name": "t", "partition_indexes": [0]}],
        require_stable=False,
    )
    return int(answer.topics[0].partitions[0].committed_offset)
