"""The coordinator over a log in memory, in virtual time: leadership, loading, parked requests, timers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from syncline.core.groups.groups import GroupShard
from syncline.core.groups.messages import Effect, Instant
from syncline.core.groups.records import GroupRecordError
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.node.groups.coordinator import AGAIN_S, MENDED_S
from syncline.virtual.time.loop import VirtualLoop, run
from syncline.wire.api import ApiKey
from tests.node.groups.stand_in import StandInBroker
from tests.record_batches import build_batch

Story = Callable[[StandInBroker], Awaitable[None]]


def play(story: Story, config: BrokerConfig | None = None, *, is_started: bool = True) -> None:
    """Run a story against a broker that has the offsets topic."""
    loop = VirtualLoop()

    async def main() -> None:
        broker = StandInBroker(loop, config)
        if is_started:
            await broker.start()
        try:
            await story(broker)
        finally:
            await broker.stop()

    run(main(), loop)


def join(broker: StandInBroker, member_id: str = "", version: int = 5, **fields: Any) -> "asyncio.Future[Any]":
    """Send a JoinGroup."""
    asked: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"}],
        "reason": None,
    }
    return broker.call(ApiKey.JOIN_GROUP, version, **asked | fields)


async def stable_member(broker: StandInBroker, **fields: Any) -> str:
    """Bring up a stable group of one; return the member's id."""
    member_id: str = (await join(broker, **fields)).member_id
    assert (await join(broker, member_id, **fields)).generation_id == 1
    assignments = [{"member_id": member_id, "assignment": b"a"}]
    reply = await broker.call(
        ApiKey.SYNC_GROUP, 3, group_id="g", generation_id=1, member_id=member_id, assignments=assignments
    )
    assert (reply.error_code, reply.assignment) == (0, b"a")
    return member_id


def beat(broker: StandInBroker, member_id: str, generation: int = 1) -> "asyncio.Future[Any]":
    """Send a Heartbeat."""
    return broker.call(ApiKey.HEARTBEAT, 3, group_id="g", generation_id=generation, member_id=member_id)


def commit(broker: StandInBroker, offset: int, *, version: int = 6, group_id: str = "g") -> "asyncio.Future[Any]":
    """Send an OffsetCommit for t-0 outside any generation."""
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": 2,
        "committed_metadata": "m",
    }
    return broker.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time=-1,
        topics=[{"name": "t", "partitions": [partition]}],
    )


async def committed(broker: StandInBroker, group_id: str = "g") -> tuple[int, int]:
    """Fetch t-0 of a group; return (error of the group, offset)."""
    reply = await broker.call(
        ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=[{"name": "t", "partition_indexes": [0]}], require_stable=True
    )
    return reply.error_code, reply.topics[0].partitions[0].committed_offset if reply.topics else -2


def test_find_coordinator_creates_the_topic_and_then_names_the_leader() -> None:
    """15 until the topic exists; concurrent requests create it once."""

    async def story(broker: StandInBroker) -> None:
        for _ in range(3):
            early = await broker.call(ApiKey.FIND_COORDINATOR, 2, key="g", key_type=0)
            assert (early.error_code, early.node_id, early.host, early.port) == (15, -1, "", -1)
        assert (await join(broker)).error_code == 16
        await asyncio.sleep(1)

        reply = await broker.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g", "h", "g"])

        assert broker.created == ["__consumer_offsets"]
        assert [each.key for each in reply.coordinators] == ["g", "h", "g"]
        assert {(each.error_code, each.node_id, each.host, each.port) for each in reply.coordinators} == {
            (0, 1, "127.0.0.1", 9092)
        }

    play(story, is_started=False)


@pytest.mark.parametrize(
    ("version", "text"),
    [pytest.param(1, "NONE", id="v1"), pytest.param(3, "NONE", id="v3"), pytest.param(4, "", id="v4")],
)
def test_find_coordinator_success_has_kafkas_text(version: int, text: str) -> None:
    """Versions 1-3 spell out that there is no error, 4 and up leave it empty."""

    async def story(broker: StandInBroker) -> None:
        reply = await broker.call(ApiKey.FIND_COORDINATOR, version, key="", key_type=0, coordinator_keys=[""])
        row = reply.coordinators[0] if version >= 4 else reply
        assert (row.error_code, row.error_message, row.node_id) == (0, text, 1)

    play(story)


@pytest.mark.parametrize(("key_type", "error"), [(1, 53), (2, 42), (3, 42), (-1, 42)])
def test_find_coordinator_of_another_kind_is_refused(key_type: int, error: int) -> None:
    """Per key from v4 on; with a text, unless the type is younger than the version (share groups: v6)."""

    async def story(broker: StandInBroker) -> None:
        old = await broker.call(ApiKey.FIND_COORDINATOR, 2, key="k", key_type=key_type)
        new = await broker.call(ApiKey.FIND_COORDINATOR, 5, coordinator_keys=["k"], key_type=key_type)
        assert (old.error_code, old.node_id) == (error, -1)
        assert (new.coordinators[0].error_code, new.coordinators[0].key) == (error, "k")
        assert bool(new.coordinators[0].error_message) == (key_type != 2)

    play(story)


def test_find_coordinator_of_a_fenced_leader_is_not_available() -> None:
    """The answer does not name a leader that metadata does not show as alive."""

    async def story(broker: StandInBroker) -> None:
        brokers = {number: record._replace(fenced=True) for number, record in broker.image.brokers.items()}
        object.__setattr__(broker.image, "brokers", brokers)
        assert (await broker.call(ApiKey.FIND_COORDINATOR, 2, key="g", key_type=0)).error_code == 15

    play(story)


def test_group_goes_through_its_life_over_the_wire() -> None:
    """Join in two steps, Sync, Heartbeat, commit, describe, leave, delete."""

    async def story(broker: StandInBroker) -> None:
        member_id = await stable_member(broker)
        assert member_id.startswith("client-")
        assert (await beat(broker, member_id)).error_code == 0

        described = (
            await broker.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["g", "g", "x"], include_authorized_operations=True)
        ).groups
        assert [(each.group_state, each.authorized_operations) for each in described] == [
            ("Stable", 3400),
            ("Stable", 3400),
            ("Dead", 3400),
        ]
        member = described[0].members[0]
        assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
        assert (described[0].protocol_data, member.member_assignment) == ("range", b"a")

        left = await broker.call(
            ApiKey.LEAVE_GROUP, 3, group_id="g", members=[{"member_id": member_id, "group_instance_id": None}]
        )
        assert (left.error_code, left.members[0].error_code) == (0, 0)
        assert (await broker.call(ApiKey.LEAVE_GROUP, 1, group_id="g", member_id=member_id)).error_code == 25
        gone = await broker.call(ApiKey.DELETE_GROUPS, 2, groups_names=["g", "x", "g"])
        assert [(each.group_id, each.error_code) for each in gone.results] == [("g", 0), ("x", 69)]

    play(story)


@pytest.mark.parametrize(
    ("version", "protocol_name"),
    [pytest.param(6, "", id="v6"), pytest.param(7, None, id="v7"), pytest.param(9, None, id="v9")],
)
def test_join_error_has_the_protocol_name_of_its_version(version: int, protocol_name: str | None) -> None:
    """Empty up to v6, null from v7 on."""

    async def story(broker: StandInBroker) -> None:
        reply = await join(broker, "stranger", version)
        assert (reply.error_code, reply.protocol_name, reply.member_id) == (25, protocol_name, "stranger")
        assert (reply.generation_id, reply.leader, reply.members) == (-1, "", ())

    play(story)


def test_join_of_the_oldest_version_uses_one_timeout_for_both() -> None:
    """v0 has no rebalance timeout."""

    async def story(broker: StandInBroker) -> None:
        assert (await join(broker, version=0)).generation_id == 1

    play(story)


def test_nameless_group_is_refused_where_kafka_does() -> None:
    """24 for everything but commits and fetches."""

    async def story(broker: StandInBroker) -> None:
        assert (await join(broker, group_id="")).error_code == 24
        for key, version in ((ApiKey.SYNC_GROUP, 3), (ApiKey.HEARTBEAT, 3), (ApiKey.LEAVE_GROUP, 1)):
            fields = {"group_id": "", "generation_id": 1, "member_id": "m", "assignments": []}
            assert (await broker.call(key, version, **fields)).error_code == 24
        assert (await broker.call(ApiKey.OFFSET_DELETE, 0, group_id="", topics=[])).error_code == 24
        assert (await commit(broker, 4, group_id="")).topics[0].partitions[0].error_code == 0
        assert await committed(broker, "") == (0, 4)

    play(story)


def test_commit_refuses_unknown_partitions_one_by_one() -> None:
    """3 for those, the others are stored; a v2 commit has no leader epoch."""

    async def story(broker: StandInBroker) -> None:
        row = {"committed_offset": 5, "committed_leader_epoch": 2, "committed_metadata": None}
        reply = await broker.call(
            ApiKey.OFFSET_COMMIT,
            8,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                {"name": "nope", "partitions": [row | {"partition_index": 0}]},
                {"name": "t", "partitions": [row | {"partition_index": index} for index in (1, 2, -1)]},
            ],
        )
        assert [[each.error_code for each in topic.partitions] for topic in reply.topics] == [[3], [3, 3, 0]]
        fetched = await broker.call(ApiKey.OFFSET_FETCH, 5, group_id="g", topics=None)
        (topic,) = fetched.topics
        assert [
            (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata)
            for each in topic.partitions
        ] == [(1, 5, 2, "")]

    play(story)


@pytest.mark.parametrize("version", range(2, 10))
def test_commit_and_fetch_agree_in_every_version(version: int) -> None:
    """The text round-trips; the epoch does where both versions have it."""

    async def story(broker: StandInBroker) -> None:
        assert (await commit(broker, 9, version=version)).topics[0].partitions[0].error_code == 0
        topics = [{"name": "t", "partition_indexes": [0, 7]}, {"name": "nope", "partition_indexes": [0]}]
        for fetch_version in range(1, 10):
            group = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": topics}
            reply = await broker.call(
                ApiKey.OFFSET_FETCH, fetch_version, **group, groups=[group, group], require_stable=False
            )
            for found in reply.groups if fetch_version >= 8 else (reply,):
                rows = [row for topic in found.topics for row in topic.partitions]
                assert [(row.committed_offset, row.metadata, row.error_code) for row in rows] == [
                    (9, "m", 0),
                    (-1, "", 0),
                    (-1, "", 0),
                ]
                if fetch_version >= 5:
                    assert rows[0].committed_leader_epoch == (2 if version >= 6 else -1)

    play(story)


def test_commit_with_a_retention_time_expires_by_itself() -> None:
    """v2-4: milliseconds from the commit on."""

    async def story(broker: StandInBroker) -> None:
        row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        await broker.call(
            ApiKey.OFFSET_COMMIT,
            4,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=1_000,
            topics=[{"name": "t", "partitions": [row]}],
        )
        await asyncio.sleep(601)
        assert await committed(broker) == (0, -1)

    play(story)


def test_list_groups_filters_without_regard_to_case() -> None:
    """Unknown states and types match nothing."""

    async def story(broker: StandInBroker) -> None:
        await stable_member(broker)
        await commit(broker, 1, group_id="only-offsets")

        async def listed(*states: str, types: tuple[str, ...] = ()) -> list[tuple[str, str, str, str]]:
            reply = await broker.call(ApiKey.LIST_GROUPS, 5, states_filter=states, types_filter=types)
            assert reply.error_code == 0
            return sorted(
                (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in reply.groups
            )

        stable = ("g", "consumer", "Stable", "classic")
        empty = ("only-offsets", "", "Empty", "classic")
        assert await listed() == [stable, empty]
        assert await listed("sTaBlE") == [stable]
        assert await listed("nonsense") == []
        assert await listed(types=("Classic",)) == [stable, empty]
        assert await listed(types=("consumer",)) == []
        assert len((await broker.call(ApiKey.LIST_GROUPS, 0)).groups) == 2

    play(story)


def test_offset_delete_judges_each_partition() -> None:
    """86 for what a member reads, 3 for what does not exist."""

    async def story(broker: StandInBroker) -> None:
        await stable_member(broker)
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "nope")]
        reply = await broker.call(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
        assert (reply.error_code, [topic.partitions[0].error_code for topic in reply.topics]) == (0, [3, 86])
        assert (await broker.call(ApiKey.OFFSET_DELETE, 0, group_id="x", topics=topics)).error_code == 69

    play(story)


def test_broker_that_does_not_lead_is_no_coordinator() -> None:
    """16 everywhere; v1 of OffsetFetch has it in each partition, 8 and up per group."""

    async def story(broker: StandInBroker) -> None:
        broker.groups.resigned(broker.groups.partition_of("g"))
        assert (await join(broker)).error_code == 16
        assert (await beat(broker, "m")).error_code == 16
        assert (await commit(broker, 1)).topics[0].partitions[0].error_code == 16
        assert await committed(broker) == (16, -2)
        topics = [{"name": "t", "partition_indexes": [0]}]
        oldest = await broker.call(ApiKey.OFFSET_FETCH, 1, group_id="g", topics=topics)
        assert oldest.topics[0].partitions[0].error_code == 16
        several = await broker.call(
            ApiKey.OFFSET_FETCH,
            8,
            groups=[{"group_id": each, "topics": topics} for each in ("g", "h")],
            require_stable=False,
        )
        assert [each.error_code for each in several.groups] == [16, 0]
        (described,) = (
            await broker.call(ApiKey.DESCRIBE_GROUPS, 4, groups=["g"], include_authorized_operations=False)
        ).groups
        assert (described.error_code, described.group_state, described.authorized_operations) == (16, "", -(2**31))
        (deleted,) = (await broker.call(ApiKey.DELETE_GROUPS, 1, groups_names=["g"])).results
        assert deleted.error_code == 16

    play(story)


def test_requests_are_refused_while_the_log_is_read() -> None:
    """14 until everything before this leadership is committed and replayed."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 7)
        index = broker.groups.partition_of("g")
        partition = broker.led()
        broker.groups.resigned(index)
        partition.committed.clear()

        broker.groups.became_leader(index, 5)
        await asyncio.sleep(1)
        assert (await join(broker)).error_code == 14
        assert (await broker.call(ApiKey.LIST_GROUPS, 4, states_filter=[])).error_code == 14
        assert await committed(broker) == (14, -2)

        partition.committed.set()
        await asyncio.sleep(0.01)
        assert await committed(broker) == (0, 7)

    play(story)


def test_leadership_that_ends_while_the_log_is_read_leaves_nothing() -> None:
    """The loader notices the end of its term; a later term starts again."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 7)
        index = broker.groups.partition_of("g")
        partition = broker.led()
        broker.groups.resigned(index)
        partition.committed.clear()
        broker.groups.became_leader(index, 5)
        await asyncio.sleep(0.01)
        broker.groups.resigned(index)
        partition.committed.set()
        await asyncio.sleep(0.01)
        assert await committed(broker) == (16, -2)

        broker.groups.became_leader(index, 6)
        await asyncio.sleep(0.01)
        assert await committed(broker) == (0, 7)

    play(story)


def test_group_survives_a_change_of_coordinator() -> None:
    """The member's heartbeats continue once the next coordinator has read the log."""

    async def story(broker: StandInBroker) -> None:
        member_id = await stable_member(broker)
        index = broker.groups.partition_of("g")
        broker.groups.resigned(index)
        broker.groups.became_leader(index, 1)
        await asyncio.sleep(0.01)

        assert (await beat(broker, member_id)).error_code == 0
        await asyncio.sleep(11)
        assert (await beat(broker, member_id)).error_code == 25, "its session has ended"

    play(story)


def test_losing_leadership_answers_what_is_parked() -> None:
    """A Join that waits for others gets 16, and its connection is free."""

    async def story(broker: StandInBroker) -> None:
        member_id = await stable_member(broker)
        newcomer = (await join(broker)).member_id
        parked = join(broker, newcomer)
        await asyncio.sleep(0)
        assert not parked.done()

        broker.groups.resigned(broker.groups.partition_of("g"))

        assert (await parked).error_code == 16
        assert (await beat(broker, member_id)).error_code == 16

    play(story)


def test_m39_a_commit_is_not_acknowledged_by_a_term_that_is_over() -> None:
    """Even if the log calls back later, the client got NOT_COORDINATOR, and a new term reads the log."""

    async def story(broker: StandInBroker) -> None:
        partition = broker.led()
        index = broker.groups.partition_of("g")
        partition.is_committing = False
        waiting = commit(broker, 7)
        broker.groups.resigned(index)
        assert (await waiting).topics[0].partitions[0].error_code == 16

        partition.commit()
        broker.groups.became_leader(index, 1)
        await asyncio.sleep(0.01)
        assert await committed(broker) == (0, 7), "the log had it after all"

    play(story)


def test_write_of_unknown_fate_ends_the_term_and_the_next_reads_the_log_h11() -> None:
    """A broker elected again must not serve what it remembers: the log may hold more."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 3)
        partition = broker.led()
        index = broker.groups.partition_of("g")
        partition.is_committing = False
        waiting = commit(broker, 7)

        partition.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert (await waiting).topics[0].partitions[0].error_code == 16
        assert await committed(broker) == (16, -2)

        partition.commit()
        broker.groups.became_leader(index, 1)
        await asyncio.sleep(0.01)
        assert await committed(broker) == (0, 7)

    play(story)


def test_disk_that_fails_under_a_second_write_ends_the_term_and_answers_both() -> None:
    """The verdict on the first write comes from inside the append of the second; the log must still hear of its disk.

    The log takes itself offline inside that append. An exception in there would keep the broker from reporting it.
    """

    async def story(broker: StandInBroker) -> None:
        partition = broker.led()
        partition.is_committing = False
        first = commit(broker, 7)
        partition.is_disk_failing = True
        second = commit(broker, 8)

        errors = [(await each).topics[0].partitions[0].error_code for each in (first, second)]
        assert errors == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
        assert await committed(broker) == (ErrorCode.NOT_COORDINATOR, -2)

    play(story)


def test_new_term_without_lost_writes_keeps_the_groups() -> None:
    """A re-elected leader continues; no request waits until the log is read."""

    async def story(broker: StandInBroker) -> None:
        member_id = await stable_member(broker)
        broker.groups.became_leader(broker.groups.partition_of("g"), 9)
        assert (await beat(broker, member_id)).error_code == 0

    play(story)


@pytest.mark.parametrize(
    ("refusal", "answered"),
    [
        pytest.param(ErrorCode.NOT_ENOUGH_REPLICAS, 15, id="under-min-isr"),
        pytest.param(ErrorCode.NOT_LEADER_OR_FOLLOWER, 16, id="not-leader"),
        pytest.param(ErrorCode.MESSAGE_TOO_LARGE, 28, id="too-large"),
    ],
)
def test_commit_refused_by_the_log_is_translated(refusal: ErrorCode, answered: int) -> None:
    """Nothing was appended: the coordinator stays."""

    async def story(broker: StandInBroker) -> None:
        broker.led().refusal = refusal
        assert (await commit(broker, 7)).topics[0].partitions[0].error_code == answered
        assert await committed(broker) == (0, -1)

    play(story)


def test_commit_with_too_few_replicas_after_the_append_is_stored() -> None:
    """The high watermark has passed it, so a next coordinator knows it, and so must this one."""

    async def story(broker: StandInBroker) -> None:
        partition = broker.led()
        partition.is_committing = False
        waiting = commit(broker, 7)
        partition.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert (await waiting).topics[0].partitions[0].error_code == 0
        assert await committed(broker) == (0, 7)

    play(story)


def test_commit_is_answered_when_replication_takes_too_long() -> None:
    """offsets.commit.timeout.ms bounds the wait; what is committed later counts all the same."""

    async def story(broker: StandInBroker) -> None:
        partition = broker.led()
        partition.is_committing = False
        started_ms = broker.clock.mono_ms()
        reply = await commit(broker, 7)
        assert (reply.topics[0].partitions[0].error_code, broker.clock.mono_ms() - started_ms) == (15, 5_000)
        partition.commit()
        assert await committed(broker) == (0, 7)

    play(story)


def test_initial_delay_and_sessions_end_on_the_millisecond() -> None:
    """One timer serves all deadlines: the window of a new group, then the session of its member."""

    async def story(broker: StandInBroker) -> None:
        member_id = (await join(broker)).member_id
        started_ms = broker.clock.mono_ms()
        await join(broker, member_id)
        assert broker.clock.mono_ms() - started_ms == 3_000
        await asyncio.sleep(9.999)
        assert (await beat(broker, member_id)).error_code == 0
        await asyncio.sleep(10.001)
        assert (await beat(broker, member_id)).error_code == 25

    play(story, BrokerConfig())


def test_offsets_of_a_deleted_topic_are_forgotten_also_while_loading() -> None:
    """Whether the shard answers already or still reads its log."""

    async def story(broker: StandInBroker) -> None:
        await commit(broker, 7)
        broker.groups.topics_deleted(("t",))
        assert await committed(broker) == (0, -1)

        await commit(broker, 8)
        index = broker.groups.partition_of("g")
        broker.groups.resigned(index)
        broker.groups.became_leader(index, 1)
        broker.groups.topics_deleted(("t",))
        await asyncio.sleep(0.01)
        assert await committed(broker) == (0, -1)

    play(story)


def test_log_that_is_not_a_coordinators_makes_the_groups_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    """A partly loaded state would be worse than none: 15, and a traceback for the operator."""

    async def story(broker: StandInBroker) -> None:
        index = broker.groups.partition_of("g")
        broker.groups.resigned(index)
        broker.led().log = bytes(build_batch([(0, b"\x00\x01\x00", b"")]))
        broker.groups.became_leader(index, 1)
        await asyncio.sleep(0.01)
        assert await committed(broker) == (15, -2)

    play(story)

    assert GroupRecordError.__name__ in caplog.text


def test_many_records_are_loaded_in_turns() -> None:
    """A long log does not block the loop: other callbacks run between two slices."""

    async def story(broker: StandInBroker) -> None:
        for offset in range(1_200):
            await commit(broker, offset)
        index = broker.groups.partition_of("g")
        broker.groups.resigned(index)
        broker.groups.became_leader(index, 1)
        turns = 0
        while (await committed(broker))[0] == 14:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 3
        assert await committed(broker) == (0, 1_199)

    play(story)


def test_same_seed_gives_the_same_member_ids() -> None:
    """Ids come from the broker's random generator."""
    ids: list[str] = []

    async def story(broker: StandInBroker) -> None:
        ids.append((await join(broker)).member_id)

    play(story)
    play(story)

    assert ids[0] == ids[1]


def test_exception_in_a_timer_ends_one_term_and_another_reads_its_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What waits is answered, the group is read from the log again, and its members go on."""
    failures = [1]
    tick = GroupShard.tick

    def failing_tick(shard: GroupShard, at: Instant) -> tuple[Effect, ...]:
        if failures and shard.describe("g") is not None:
            failures.pop()
            raise AssertionError("a planted bug")
        return tick(shard, at)

    monkeypatch.setattr(GroupShard, "tick", failing_tick)

    async def story(broker: StandInBroker) -> None:
        member_id = (await join(broker)).member_id
        waiting = join(broker, member_id)

        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert not failures
        assert (await join(broker)).error_code == ErrorCode.NOT_COORDINATOR

        await asyncio.sleep(AGAIN_S + 0.1)
        await stable_member(broker)

    play(story)
    assert "a planted bug" in caplog.text


def test_exception_in_a_request_closes_its_connection_and_answers_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception reaches the dispatcher; a request that waited is answered NOT_COORDINATOR."""

    def failing_heartbeat(*_: object, **__: object) -> tuple[Effect, ...]:
        raise AssertionError("a planted bug")

    async def story(broker: StandInBroker) -> None:
        member_id = await stable_member(broker)
        waiting = join(broker, (await join(broker)).member_id)
        monkeypatch.setattr(GroupShard, "heartbeat", failing_heartbeat)

        with pytest.raises(AssertionError, match="a planted bug"):
            broker.call(ApiKey.HEARTBEAT, 3, group_id="g", generation_id=1, member_id=member_id)

        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR

    play(story)


def test_members_are_counted_among_the_memory_for_clients() -> None:
    """As long as they are members of a group that this broker coordinates; when it is full, no one else joins."""

    async def story(broker: StandInBroker) -> None:
        large = [{"name": "range", "metadata": bytes(100_000)}]
        await stable_member(broker, protocols=large)
        stable_bytes = broker.memory.held_bytes
        broker.memory.add(broker.memory.limit_bytes)
        refused = await join(broker, group_id="other")
        broker.memory.add(-broker.memory.limit_bytes)
        broker.groups.resigned(broker.groups.partition_of("g"))

        assert 100_000 < stable_bytes < 103_000
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.memory.held_bytes == 0

    play(story)


def test_damaged_log_is_reported_and_no_commits_are_made_of_it() -> None:
    """A flipped bit would be read as another commit. The groups wait, and are there when the log is mended."""

    async def story(broker: StandInBroker) -> None:
        index = broker.groups.partition_of("g")
        await commit(broker, 6)
        await commit(broker, 7)
        partition = broker.led()
        whole = partition.log
        at = whole.rindex(b"\x01m")
        partition.log = whole[:at] + b"\x01n" + whole[at + 2 :]
        broker.groups.resigned(index)
        broker.groups.became_leader(index, 1)
        await asyncio.sleep(1)

        assert (await committed(broker))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.found_damaged == {index: "the checksum of the batch at offset 1 does not match"}
        # The first commit was read, and is not the group's last one.
        assert list(broker.commits.groups()) == []
        partition.log = whole
        await asyncio.sleep(MENDED_S)
        assert await committed(broker) == (ErrorCode.NONE, 7)

    play(story)
