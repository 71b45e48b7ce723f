"""The events of the controller's decisions: in their order, and many of them in slices."""

import asyncio
from uuid import UUID

from syncline.core.cluster.decision import Why
from syncline.core.cluster.decision_events import Replaced
from syncline.model.events import Election, Event
from syncline.model.ids import BrokerId
from syncline.model.metadata import PartitionRecord, TopicCreated
from syncline.model.reasons import Reason
from syncline.node.clock import SystemClock
from syncline.node.controller.commits import Decided, ignore
from syncline.node.controller.decision_journal import SLICE, DecisionJournal

MANY = 2 * SLICE + 1


def created(name: str, count: int, version: int) -> Decided:
    """Return the decision to create a topic."""
    records = tuple(PartitionRecord(number, 1, 0, 0, (1,), (1,)) for number in range(count))
    change = TopicCreated(name, UUID(int=version), records)
    return Decided(version, Replaced({}, {}, {}), (change,), None, ignore, Why(Reason.CREATED), False)


def places(events: list[Event]) -> list[tuple[str, int]]:
    """Return the partitions of elections."""
    return [(event.topic, event.partition) for event in events if isinstance(event, Election)]


def test_events_of_a_large_topic_are_noted_in_slices_and_in_order() -> None:
    """A decision that is committed meanwhile comes after it; few events are noted at once."""
    asyncio.run(_noted_in_slices())


async def _noted_in_slices() -> None:
    noted: list[Event] = []
    journal = DecisionJournal(asyncio.get_running_loop(), SystemClock(), BrokerId(1), noted.append)
    journal.committed([created("small", 3, 1)])
    at_once = len(noted)
    journal.committed([created("large", MANY, 2)])
    sizes = [len(noted)]
    journal.committed([created("later", 2, 3)])
    while len(noted) < 3 + MANY + 2 + 3:
        await asyncio.sleep(0)
        sizes.append(len(noted))

    # Of a new topic, and of each of its partitions.
    assert at_once == 1 + 3
    assert max(after - before for before, after in zip([at_once, *sizes], sizes, strict=False)) == SLICE
    assert places(noted) == [
        (name, number) for name, count in (("small", 3), ("large", MANY), ("later", 2)) for number in range(count)
    ]
    assert journal.unclean_election_count == 0


def test_events_that_cannot_be_noted_do_not_keep_others_out_of_the_journal() -> None:
    """The fault is logged; the other decisions' events follow."""
    asyncio.run(_noted_in_spite_of_a_fault())


async def _noted_in_spite_of_a_fault() -> None:
    noted: list[Event] = []

    def note(event: Event) -> None:
        if places([event]) == [("bad", 1)]:
            raise ValueError("planted")
        noted.append(event)

    journal = DecisionJournal(asyncio.get_running_loop(), SystemClock(), BrokerId(1), note)
    journal.committed([created("bad", 3, 1), created("good", 2, 2)])
    journal.committed([created("later", 1, 3)])

    assert places(noted) == [("bad", 0), ("good", 0), ("good", 1), ("later", 0)]
