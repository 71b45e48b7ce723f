"""A follower whose disk does not answer cannot cut its log yet; the rest of its broker continues, and later it does."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from syncline.core.replication.follower import FollowerPhase, TruncationMode
from syncline.model.errors import ErrorCode
from syncline.node.replication.cuts import SEARCHES_MAX
from syncline.storage.removal.cutting import CutSearch
from syncline.virtual.disk.disk import DiskSettings
from tests.node.wire_client import batch
from tests.node.world import QUIET_DISK, World

Work = tuple[Callable[[], Any], Callable[[Any], None]]


class StuckDisk:
    """One broker's disk, with nothing in the page cache, that answers only when the test lets it."""

    def __init__(self, world: World, broker_id: int) -> None:
        disk = world.host(broker_id).disk
        assert disk is not None
        self._disk: Any = disk
        self._world = world
        self._broker_id = broker_id
        self.held: list[Work] = []
        disk.settings = DiskSettings(miss_probability=1)
        self._disk.later = lambda work, done: self.held.append((work, done))

    @property
    def searches(self) -> list[Work]:
        """Return the searches for the place of a cut."""
        return [each for each in self.held if isinstance(getattr(each[0], "__self__", None), CutSearch)]

    def answer(self, *, error: OSError | None = None) -> None:
        """Perform the requests so far, or refuse them."""
        held, self.held = self.held, []
        for work, done in held:
            self._world.call(self._broker_id, lambda work=work, done=done: done(error or work()))

    def clear(self) -> None:
        """Behave like a healthy disk again."""
        del self._disk.later
        self._disk.settings = QUIET_DISK
        self.answer()


async def diverged(
    world: World, topics: tuple[str, ...] = ("t",), replicas: tuple[int, ...] = (3, 2), **configs: Any
) -> StuckDisk:
    """Let broker 3 lose its leadership with records that its successor lacks, and then get a stuck disk.

    Each log of broker 3 has 5 records, the last 3 of them of its own; broker 2 has 9, the first 2 in common.
    """
    for topic in topics:
        await world.topic(topic, replicas=replicas, **configs)
    client = await world.client(3)
    for topic in topics:
        await client.produce(topic, batch(2))
    others = [f"broker-{each}" for each in replicas if each != 3]
    for other in others:
        world.network.cut("broker-3", other)
        world.network.cut(other, "broker-3")
    for topic in topics:
        for _ in range(3):
            await client.produce(topic, batch(), acks=1)
    stuck = StuckDisk(world, 3)
    world.network.cut("broker-3", "broker-1")
    await world.until(lambda: all(world.partition(2, topic).is_leader for topic in topics))
    for topic in topics:
        await (await world.client(2)).produce(topic, batch(7), acks=1)
    assert {world.partition(3, topic).log.log_end for topic in topics} == {5}
    for other in others:
        world.network.heal("broker-3", other)
        world.network.heal(other, "broker-3")
    world.network.heal("broker-3", "broker-1")
    return stuck


def truncations(world: World) -> int:
    """Return how often a log was cut."""
    return world.cluster.ghost.counts.get("truncate", 0)


def phase(world: World, topic: str = "t") -> FollowerPhase | None:
    """Return the state of broker 3."""
    follower = world.partition(3, topic).follower
    return None if follower is None else follower.phase


@pytest.mark.brokers(3)
async def test_broker_serves_on_when_it_cannot_read_where_to_cut(world: World) -> None:
    """Its session lives, other partitions are led and followed; the log is cut when the disk answers."""
    await world.topic("led", replicas=(3,))
    await world.topic("followed", replicas=(1, 3))
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    await world.later(20)

    assert phase(world) is FollowerPhase.TRUNCATING
    assert world.partition(3).log.log_end == 5
    assert not world.broker(1).image.brokers[3].fenced
    row = await (await world.client(3)).produce("led", batch())
    assert row.error_code == ErrorCode.NONE
    await (await world.client(1)).produce("followed", batch())
    await world.until(lambda: world.partition(3, "followed").log.log_end == 1)
    assert truncations(world) == 0
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)
    assert truncations(world) == 1
    assert [tuple(entry)[:2] for entry in world.partition(3).log.epochs.entries] == [(0, 0), (1, 2)]
    await world.until(lambda: set(world.partition(2).isr) == {2, 3})


@pytest.mark.brokers(3)
async def test_follower_leads_with_its_whole_log_when_it_is_elected_before_the_cut(world: World) -> None:
    """An unclean election in the middle: nothing was cut, and the outdated plan cuts nothing later."""
    stuck = await diverged(world, unclean_leader_election_enable="true")
    await world.until(lambda: stuck.searches)
    world.kill(2)
    await world.until(lambda: world.partition(3).is_leader)
    led_from = world.partition(3).log.log_end
    row = await (await world.client(3)).produce("t", batch(), acks=1)
    stuck.clear()
    await world.later(2)
    watched, world.cluster.ghost.violations = world.cluster.ghost.violations, []

    assert ["S4" in each for each in watched] == [True], "the election, which was unclean, and nothing else"
    assert led_from == 5
    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 5)
    assert world.partition(3).log.log_end == 6
    assert truncations(world) == 0


@pytest.mark.brokers(4)
async def test_follower_decides_afresh_when_another_leader_comes_before_the_cut(world: World) -> None:
    """The late plan of the first leader's time is dropped, the second leader's answer orders its own cut."""
    stuck = await diverged(world, replicas=(3, 2, 4))
    await world.until(lambda: stuck.searches and set(world.partition(2).isr) == {2, 4})
    (first,) = stuck.searches
    await world.until(lambda: world.partition(4).log.log_end == 9)
    world.kill(2)
    await world.until(lambda: world.partition(4).is_leader and len(stuck.searches) == 2)
    world.call(3, lambda: first[1](first[0]()))
    stuck.held.remove(first)
    cut_by_first = world.partition(3).log.log_end

    assert cut_by_first == 5
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)
    assert truncations(world) == 1


@pytest.mark.brokers(3)
async def test_cut_is_forgotten_when_the_topic_is_deleted_before_it(world: World) -> None:
    """A topic of the same name is another one, and keeps its records."""
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    await world.delete_topic()
    await world.topic("t", replicas=(3, 2))
    row = await (await world.client(3)).produce("t", batch(6))
    stuck.answer(error=FileNotFoundError(errno.ENOENT, "no such file"))
    stuck.clear()
    await world.later(2)

    assert row.error_code == ErrorCode.NONE
    assert world.partition(3).log.log_end == 6
    assert not world.partition(3).is_offline
    assert truncations(world) == 0


@pytest.mark.brokers(3)
async def test_log_goes_offline_when_the_disk_refuses_to_tell_where_to_cut(world: World) -> None:
    """As with every read that a replica depends on; other partitions are not affected."""
    await world.topic("led", replicas=(3,))
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    stuck.answer(error=OSError(errno.EIO, "an error"))
    stuck.clear()
    row = await (await world.client(3)).produce("led", batch())
    found = (world.partition(3).is_offline, phase(world))
    world.kill(3)
    await world.start(3)
    await world.until(lambda: world.partition(3).log.log_end == 9)

    assert found == (True, FollowerPhase.FAILED)
    assert row.error_code == ErrorCode.NONE


@pytest.mark.brokers(3)
async def test_cut_is_tried_again_when_there_were_no_descriptors(world: World) -> None:
    """Such an error harms no stored data, and is transient."""
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    stuck.answer(error=OSError(errno.EMFILE, "too many open files"))
    assert phase(world) is FollowerPhase.TRUNCATING
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)

    assert not world.partition(3).is_offline


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode.value, marks=pytest.mark.brokers(3, log_truncation_mode=mode.value)) for mode in TruncationMode],
)
async def test_refused_cut_is_tried_again(world: World, mode: str) -> None:
    """Guards: a follower that had to cut its log without descriptors went offline, and its broker ended.

    Later it fetched on instead, and kept its own records where it does not compare histories in each fetch.
    """
    assert world.node(3).broker.config.log_truncation_mode == mode
    told: list[str] = []
    world.node(3).on_unfit = told.append
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    world.host(3).disk.fail_next("list", errno.EMFILE)
    stuck.answer()
    refused = (world.partition(3).is_offline, phase(world), world.partition(3).log.log_end)
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)
    await world.later(1)

    assert refused == (False, FollowerPhase.TRUNCATING, 5)
    assert truncations(world) == 1
    assert told == []


@pytest.mark.brokers(3)
async def test_cut_is_planned_anew_when_the_log_has_changed_meanwhile(world: World) -> None:
    """Retention may begin a new segment during the search: the result is then not used."""
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    world.call(3, world.partition(3).log.roll)
    stuck.answer()
    assert world.partition(3).log.log_end == 5
    assert len(stuck.searches) == 1
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)

    assert truncations(world) == 1


@pytest.mark.brokers(3)
async def test_late_plan_does_no_harm_when_the_broker_has_stopped(world: World) -> None:
    """The disk answers after the fetchers were closed: the answer is dropped."""
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    partition = world.partition(3)
    world.call(3, world.fetcher(3, 2).close)
    stuck.clear()

    assert partition.log.log_end == 5


@pytest.mark.brokers(3)
async def test_few_logs_at_once_ask_a_slow_disk_where_to_cut(world: World) -> None:
    """The other workers serve readers; the remaining searches wait for their turn and get it."""
    topics = tuple("abcde")
    stuck = await diverged(world, topics)
    await world.until(lambda: all(phase(world, topic) is FollowerPhase.TRUNCATING for topic in topics))
    rounds = []
    while truncations(world) < len(topics):
        await world.until(lambda: stuck.searches)
        rounds.append(len(stuck.searches))
        stuck.answer()
    stuck.clear()

    assert rounds == [SEARCHES_MAX, SEARCHES_MAX, 1]
    await world.until(lambda: all(world.partition(3, topic).log.log_end == 9 for topic in topics))


@pytest.mark.brokers(3, log_truncation_mode="high-watermark")
async def test_cut_at_the_own_watermark_waits_for_the_disk_as_well(world: World) -> None:
    """It is ordered when the role begins, inside the metadata's application, which must not wait either."""
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    before = world.partition(3).log.log_end
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)

    assert before == 5


@pytest.mark.brokers(3, log_truncation_mode="epoch-request")
async def test_cut_after_a_question_waits_for_the_disk_as_well(world: World) -> None:
    """The next question, or fetch, leaves once the log is cut."""
    stuck = await diverged(world)
    await world.until(lambda: stuck.searches)
    before = (world.partition(3).log.log_end, phase(world))
    stuck.clear()
    await world.until(lambda: world.partition(3).log.log_end == 9)

    assert before == (5, FollowerPhase.TRUNCATING)
