"""Any mixture of reports leads to findings that hold their invariants, and to sentences."""

import dataclasses
import random

import pytest

from syncline.explain.diagnosis.history import History
from syncline.explain.diagnosis.repeats import repeats_of
from syncline.explain.words.sentences import tell
from syncline.model.events import BrokerState, Election, Event, Observation, Throttle, Watermark
from syncline.model.reasons import Reason

from .catalogue import CATALOGUE
from .witnesses import PARTITION, TOPIC, diagnosed, shown


def mixture(dice: random.Random) -> list[Event]:
    """Return the events of several incidents at once, some of them moved in time, lost, written twice or by others."""
    events: list[Event] = []
    for name in dice.sample(sorted(CATALOGUE), 4):
        later_ms = dice.choice((0, 0, 500, 7_000, 30_000))
        for witness in CATALOGUE[name].witnesses():
            for event in witness if isinstance(witness, list) else [witness]:
                events += [_changed(event, later_ms, dice)] * dice.choice((0, 1, 1, 1, 1, 2))
    dice.shuffle(events)
    return events


def _changed(event: Event, later_ms: int, dice: random.Random) -> Event:
    changes: dict[str, object] = {"ts_ms": event.ts_ms + later_ms}
    if isinstance(event, Observation | Throttle | Watermark):
        changes["since_ms"] = event.since_ms + later_ms
    if isinstance(event, Election | BrokerState) and dice.random() < 0.3:
        changes["reason"] = dice.choice(list(Reason))
    return dataclasses.replace(event, **changes)


@pytest.mark.parametrize("seed", range(200))
def test_diagnosis_of_any_history_is_sound(seed: int) -> None:
    """Every finding rests on a condition, every condition ends after it begins, and each has words."""
    dice = random.Random(seed)
    events = mixture(dice)

    diagnosis = diagnosed(*events, replica=dice.choice((None, None, 2)))

    diagnosis.check_invariants()
    assert len(tell(diagnosis, shown)) >= len(repeats_of(diagnosis.findings))
    assert all(each.begin_ms <= each.end_ms for each in History(events, TOPIC, PARTITION).observations)


@pytest.mark.parametrize("seed", range(20))
def test_order_in_which_events_are_read_does_not_matter(seed: int) -> None:
    """Several brokers write the journal, so their events are interleaved in any order."""
    dice = random.Random(seed)
    events = mixture(dice)
    # Events of the same millisecond keep the order of the journal: it is what tells them apart.
    events = list({each.ts_ms: each for each in events}.values())

    first = diagnosed(*events)
    dice.shuffle(events)

    assert diagnosed(*events) == first
