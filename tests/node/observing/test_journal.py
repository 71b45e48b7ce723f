"""The journal: waiting events are bounded, failed writes are repeated, and no operation waits for the journal."""

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.events import BrokerState, Election, Event, Fault, FollowerProgress, from_json
from syncline.model.ids import JOURNAL_TOPIC
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.node.observing.journal import BATCH_BYTES_MAX, WAITING_EVENTS_MAX, Journal, show
from syncline.records.batch import BatchHeader
from syncline.records.record import read_records
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.virtual.observers.raw_log import segments
from syncline.virtual.time.meter import CallMeter
from tests.node.wire_client import batch
from tests.node.world import World

journalled = pytest.mark.brokers(1, journal_enable="true")
journalled_by_three = pytest.mark.brokers(3, journal_enable="true")
lonely = pytest.mark.brokers(3, started=1, journal_enable="true")


def fault(number: int, note: str = "") -> Fault:
    """Return a distinct decision."""
    return Fault(ts_ms=1_700_000_000_000 + number, broker=-1, kind="test", target=str(number), phase="begin", note=note)


def sample(number: int) -> FollowerProgress:
    """Return a distinct sample."""
    return FollowerProgress(
        ts_ms=1_700_000_000_000 + number,
        broker=1,
        topic="t",
        partition=number,
        leader_epoch=0,
        follower=2,
        log_end=0,
        follower_log_end=0,
        high_watermark=0,
        lag_records=0,
        lag_ms=0,
        in_sync=True,
        interval_ms=1_000,
    )


def batches(world: World, broker_id: int = 1) -> list[tuple[BatchHeader, list[Event]]]:
    """Return the journal's batches in one replica's files."""
    key = world.partition(broker_id, JOURNAL_TOPIC).key
    found: list[tuple[BatchHeader, list[Event]]] = []
    for _, file in segments(world.host(broker_id).medium, LOG_DIRECTORY, key):
        position = 0
        while position < len(file.data):
            header = BatchHeader.parse(file.data, position)
            records = read_records(file.data, position, header)
            found.append((header, [from_json(record.value) for record in records]))
            position += header.size_bytes
    return found


def noted(world: World, broker_id: int = 1) -> list[int]:
    """Return the numbers of the faults in the journal."""
    events = [event for _, events in batches(world, broker_id) for event in events]
    return [int(event.target) for event in events if isinstance(event, Fault)]


def unheard(world: World) -> Journal:
    """Return a journal of the first broker that has no events yet."""
    broker = world.broker()
    return Journal(
        broker_id=broker.broker_id,
        loop=world.loop,
        cluster=broker.cluster,
        configs=broker.configs,
        partitions=broker.partitions,
        tasks=broker.tasks,
        topics=broker.describing.topics,
        links=world.node().links,
        settle=broker.fetching.woken.settle,
    )


async def ready(world: World) -> None:
    """Wait until the journal's topic exists and the events of the start are written."""
    await world.until(lambda: all(JOURNAL_TOPIC in world.broker(each).image.topics for each in world.living()))
    await world.until(lambda: not any(world.broker(each).journal.unwritten for each in world.living()))


@journalled
async def test_journal_writes_events_when_its_topic_is_there(world: World) -> None:
    """Within a second, in the order of `note`, each with its own time."""
    await ready(world)
    began = world.loop.time()
    for number in range(3):
        world.call(1, world.broker().journal.note, fault(number))
    await world.until(lambda: len(noted(world)) == 3)

    assert noted(world) == [0, 1, 2]
    assert world.loop.time() - began < 0.5
    assert batches(world)[-1][0].max_timestamp == 1_700_000_000_002


@journalled
async def test_journal_tells_the_story_of_the_start_when_it_can_be_written(world: World) -> None:
    """Decisions from before the topic existed wait for it."""
    await ready(world)
    states = [event.state for _, events in batches(world) for event in events if isinstance(event, BrokerState)]

    assert states[:2] == ["registered", "unfenced"]


@lonely
async def test_journal_keeps_a_bounded_number_of_events_when_it_cannot_be_written(world: World) -> None:
    """Samples go first, oldest first; then the oldest decisions."""
    journal = unheard(world)
    for number in range(WAITING_EVENTS_MAX // 2):
        world.call(1, journal.note, sample(number))
        world.call(1, journal.note, fault(number))
    for number in range(3):
        world.call(1, journal.note, fault(1_000_000 + number))
    waiting = journal.unwritten
    journal.close()

    samples = [event for event in waiting if isinstance(event, FollowerProgress)]
    assert len(waiting) == WAITING_EVENTS_MAX
    assert waiting[0] == fault(0)
    assert samples == [sample(number) for number in range(3, WAITING_EVENTS_MAX // 2)]


@lonely
async def test_full_journal_does_not_look_for_what_it_drops(world: World) -> None:
    """A broker that samples hundreds of partitions in one callback, while nothing is written, looks at no others."""
    journal = unheard(world)
    for number in range(WAITING_EVENTS_MAX):
        journal.note(fault(number) if number % 2 else sample(number))

    def note_many() -> None:
        for number in range(500):
            journal.note(sample(number))

    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    world.call(1, world.loop.call_soon, note_many)
    await world.later(0)
    world.loop.meter = None
    journal.close()

    assert len(journal.unwritten) == WAITING_EVENTS_MAX
    assert meter.calls_max < 20 * 500


@lonely
async def test_journal_drops_its_oldest_decisions_when_there_are_too_many(world: World) -> None:
    """Without samples to give up, the newest events are the ones to keep."""
    journal = unheard(world)
    for number in range(WAITING_EVENTS_MAX + 5):
        world.call(1, journal.note, fault(number))
    waiting = journal.unwritten
    journal.close()

    assert len(waiting) == WAITING_EVENTS_MAX
    assert waiting[0] == fault(5)


@lonely
async def test_journal_tells_what_waits_to_whoever_asks_on_this_machine(world: World) -> None:
    """Decisions of all partitions, samples of the one that is asked about; in order, as they will be written."""
    journal = unheard(world)
    broker = SimpleNamespace(broker_id=1, journal=journal)
    for event in (fault(1), sample(2), fault(3)):
        world.call(1, journal.note, event)
    place = (sample(2).topic, sample(2).partition)

    def told(topic: str, partition: int) -> list[str]:
        texts: list[str] = show(broker, {"topic": topic, "partition": partition})["events"]
        return texts

    assert [from_json(text.encode()) for text in told(*place)] == [fault(1), sample(2), fault(3)]
    assert [from_json(text.encode()) for text in told("other", 0)] == [fault(1), fault(3)]
    journal.close()


@lonely
async def test_journal_splits_what_has_waited_when_the_brokers_are_there_at_last(world: World) -> None:
    """The topic waits for its replicas, the events for the topic; then they come in batches that any topic takes."""
    for number in range(3_000):
        world.call(1, world.broker().journal.note, fault(number, note="x" * 200))
    await world.later(3)
    is_early = JOURNAL_TOPIC in world.broker().image.topics
    for broker_id in (2, 3):
        await world.start(broker_id)
    await ready(world)
    leader = world.broker().image.partition(JOURNAL_TOPIC, 0).leader
    sizes = [header.size_bytes for header, _ in batches(world, leader)]

    assert not is_early
    assert noted(world, leader) == list(range(3_000))
    assert len(world.broker().image.partition(JOURNAL_TOPIC, 0).replicas) == 3
    assert len(sizes) > 3
    assert max(sizes) < BATCH_BYTES_MAX + 1_000


@lonely
async def test_journal_writes_many_events_in_slices(world: World) -> None:
    """A controller that moves thousands of partitions has an event of each at once."""
    for number in range(1_000):
        world.call(1, world.broker().journal.note, fault(number))
    for broker_id in (2, 3):
        await world.start(broker_id)
    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    await ready(world)
    leader = world.broker().image.partition(JOURNAL_TOPIC, 0).leader
    await world.until(lambda: len(noted(world, leader)) == 1_000)
    world.loop.meter = None

    assert noted(world, leader) == list(range(1_000))
    assert meter.calls_max < 20_000


@journalled
async def test_journal_writes_again_when_a_write_failed(world: World) -> None:
    """A full disk costs time, not events; the order stays."""
    await ready(world)
    world.host().disk.fail_next("append", errno.ENOSPC)
    for number in range(5):
        world.call(1, world.broker().journal.note, fault(number))
    await world.until(lambda: len(noted(world)) == 5)

    assert noted(world) == [0, 1, 2, 3, 4]


@journalled_by_three
async def test_journal_is_written_by_all_when_one_leads_it(world: World) -> None:
    """Brokers that do not lead the journal send their events to the one that does."""
    await ready(world)
    leader = world.broker().image.partition(JOURNAL_TOPIC, 0).leader
    for broker_id in world.living():
        world.call(broker_id, world.broker(broker_id).journal.note, fault(broker_id))
    await world.until(lambda: len(noted(world, leader)) == 3)

    assert sorted(noted(world, leader)) == [1, 2, 3]


@journalled_by_three
async def test_journal_goes_to_the_next_leader_when_the_first_dies(world: World) -> None:
    """No event is lost with the broker that received it; one whose answer was lost may occur twice."""
    await ready(world)
    leader = world.broker().image.partition(JOURNAL_TOPIC, 0).leader
    writer = next(each for each in world.living() if each != leader)
    numbers = list(range(20))
    for number in numbers:
        world.call(writer, world.broker(writer).journal.note, fault(number))
        if number == 10:
            await world.later(0.2)
            world.kill(leader)
    await world.until(
        lambda: (
            (heir := world.broker(writer).image.partition(JOURNAL_TOPIC, 0).leader) not in (leader, -1)
            and set(noted(world, heir)) >= set(numbers[11:])
        )
    )

    assert not world.broker(writer).journal.unwritten


@journalled_by_three
async def test_journal_gives_up_on_a_leader_when_it_does_not_answer(world: World) -> None:
    """A connection that loses answers does not keep the events for ever: the journal sends them over another one."""
    await ready(world)
    leader = world.broker().image.partition(JOURNAL_TOPIC, 0).leader
    writer = next(each for each in world.living() if each != leader)
    world.network.cut(f"broker-{leader}", f"broker-{writer}")
    world.call(writer, world.broker(writer).journal.note, fault(7))
    await world.later(7)
    world.network.heal(f"broker-{leader}", f"broker-{writer}")
    await world.until(lambda: 7 in [each for living in world.living() for each in noted(world, living)])
    await world.until(lambda: not world.broker(writer).journal.unwritten)


@journalled
async def test_journal_is_written_to_the_end_when_the_broker_stops(world: World) -> None:
    """A clean stop writes all waiting events."""
    await ready(world)
    partition = world.partition(1, JOURNAL_TOPIC)
    world.call(1, world.broker().journal.note, fault(42))
    log_end = partition.log.log_end
    await world.as_broker(1, world.node().stop())

    assert partition.log.log_end > log_end
    assert noted(world) == [42]


async def test_journal_takes_nothing_when_it_is_switched_off(world: World) -> None:
    """journal.enable=false: no topic, no events."""
    world.broker().journal.note(fault(1))
    await world.later(5)

    assert not world.broker().journal.unwritten
    assert JOURNAL_TOPIC not in world.broker().image.topics


@journalled_by_three
async def test_controller_without_descriptors_says_why_it_hands_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: if it led the journal itself, it had no connection to the next leader, and `why` knew no cause."""
    await ready(world)
    victim = next(each for each in world.living() if world.broker(each).controller.active is not None)
    others = [each for each in world.living() if each != victim]
    for other in others:
        if world.broker(victim).image.partition(JOURNAL_TOPIC, 0).leader == other:
            world.kill(other)
            await world.until(lambda: world.broker(victim).image.partition(JOURNAL_TOPIC, 0).leader == victim)
            await world.start(other)
    await world.until(lambda: len(world.broker(victim).image.partition(JOURNAL_TOPIC, 0).isr) == 3)
    await world.topic(replicas=(victim, *others))
    peer = await world.client(victim)
    connect = PeerConnection.connect

    async def refused(host: str, port: int, client_id: str, *rest: Any, **options: Any) -> PeerConnection:
        if client_id.startswith(f"broker-{victim}"):
            raise PeerLost("no descriptors") from OSError(errno.EMFILE, "Too many open files")
        return await connect(host, port, client_id, *rest, **options)

    monkeypatch.setattr(PeerConnection, "connect", refused)
    world.host(victim).medium.refusing = errno.EMFILE
    refusal = await peer.produce("t", batch())
    await world.until(lambda: world.broker(others[0]).image.partition(JOURNAL_TOPIC, 0).leader != victim)
    leader = world.broker(others[0]).image.partition(JOURNAL_TOPIC, 0).leader

    def reasons() -> list[str]:
        events = [event for _, events in batches(world, leader) for event in events]
        return [event.reason for event in events if isinstance(event, Election) and event.topic == "t"]

    await world.until(lambda: "no-descriptors" in reasons())
    world.host(victim).medium.refusing = 0

    assert refusal.error_code == ErrorCode.KAFKA_STORAGE_ERROR
