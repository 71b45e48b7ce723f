"""Commits and appends race, leaders change: no commit is beyond the end that is shown with it."""

import asyncio

import pytest

from syncline.core.lag.own_pauses import OwnPauses
from syncline.model.errors import ErrorCode
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.node.lag.group_lag import GroupLag, MeasuredRow
from syncline.node.lag.leaders import Answers, Leaders, Questions
from syncline.node.lag.peers import LagPeers
from tests.node.lag.groups import commit_with, coordinator_of
from tests.node.lag.test_time_lag import measured
from tests.node.wire_client import batch
from tests.node.world import World

ROUNDS = 200


@pytest.mark.brokers(3, offsets_topic_num_partitions=1, min_insync_replicas=2)
async def test_l22_no_row_is_negative_while_commits_race_with_appends_and_elections(world: World) -> None:
    """Guards the order: commits are read first, ends second; else a commit would be beyond the end beside it."""
    coordinator = await coordinator_of(world, "g")
    other, third = (each for each in (1, 2, 3) if each != coordinator)
    await world.topic(replicas=(other, coordinator, third))
    rows: list[MeasuredRow] = []
    is_over = False

    async def work() -> None:
        """Produce one record after the other, and commit each at once."""
        nonlocal is_over
        committer = await world.client(coordinator)
        for _ in range(ROUNDS):
            leader = world.broker(coordinator).image.topics["t"].partitions[0].leader
            if leader < 0 or leader not in world.living():
                await world.later(0.01)
                continue
            try:
                producer = await world.client(leader)
                produced = await producer.produce("t", batch(), timeout_ms=1_000)
                producer.transport.close()
            except OSError:
                continue
            if produced.error_code == ErrorCode.NONE:
                await commit_with(committer, "g", {("t", 0): produced.base_offset + 1})
        is_over = True

    async def look() -> None:
        """Measure again and again."""
        while not is_over:
            found = await measured(world, coordinator)
            rows.extend(found.rows)
            await world.later(0.003)

    async def disturb() -> None:
        """Kill the leader once, and give the leadership back later."""
        await world.later(0.15)
        world.kill(other)
        await world.later(1)
        await world.start(other)

    await asyncio.gather(work(), look(), disturb())

    assert len(rows) > 30
    assert not [each for each in rows if (each.row.committed or 0) > each.ends.high_watermark]
    assert not [each for each in rows if each.row.lag_hw is None]
    assert len({each.row.committed for each in rows}) > 15
    assert len({each.ends.leader for each in rows}) > 1
    # At last everything was committed.
    last = (await measured(world, coordinator)).rows[0].row
    assert (last.lag_hw, last.lag_bytes, last.staleness_ms) == (0, 0, 0)


async def test_l22_commit_that_comes_while_leaders_answer_waits_for_the_next_cut(world: World) -> None:
    """Guards the order where the race is lost for certain: with the later commit, the row would be beyond its end."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(4))
    broker = world.broker()
    ends = KnownEnds(10)
    commits = Commits(ends, intervals=10, min_distance_ms=0)
    term = commits.term_began(0)
    term.stored("g", "t", 0, 3, 1_000)

    class _Late(Leaders):
        """Leaders whose answers travel for so long that the group commits more meanwhile."""

        async def ask(
            self, questions: Questions, answers: Answers, *, is_exact: bool, with_readers: bool = False
        ) -> None:
            """Ask, and commit what was appended since."""
            await super().ask(questions, answers, is_exact=is_exact, with_readers=with_readers)
            term.stored("g", "t", 0, 9, 2_000)

    leaders = _Late(
        broker_id=broker.broker_id,
        clock=broker.clock,
        cluster=broker.cluster,
        disk=broker.lag.disk,
        partitions=broker.partitions,
        positions=broker.lag.positions,
        peers=LagPeers(
            broker_id=broker.broker_id, clock=broker.clock, cluster=broker.cluster, links=world.node().links
        ),
        ends=ends,
        spawn=broker.spawn,
    )
    lag = GroupLag(
        clock=broker.clock,
        cluster=broker.cluster,
        configs=broker.configs,
        commits=commits,
        ends=ends,
        leaders=leaders,
        groups=lambda: broker.groups,
        pauses=OwnPauses(),
    )

    cut = await world.as_broker(1, lag.cut(["g"], is_exact=True))
    (only,) = (await world.as_broker(1, cut.measured("g"))).rows

    assert (only.row.committed, only.ends.high_watermark, only.row.lag_hw) == (3, 4, 1)
    assert only.row.staleness_ms is not None
    assert not only.row.is_beyond_end
