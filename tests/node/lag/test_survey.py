"""A survey of all groups: what it does about memory."""

from typing import Any

from syncline.model.ids import Offset, TopicPartition
from syncline.node.lag.leaders import ToldPlaces
from syncline.node.lag.survey import FREED_PER_TURN, Survey


def test_survey_forgets_some_places_at_a_time() -> None:
    """Guards: fifty thousand places that were freed at once held the loop for 20 ms."""
    nothing: Any = None
    survey = Survey(nothing, nothing, nothing)
    places = survey.answers.places
    for number in range(2 * FREED_PER_TURN + 1):
        told = places.setdefault(TopicPartition("t", number % 3), ToldPlaces(1, {}))
        told.by_offset[Offset(number)] = None
    of_partitions = [told.by_offset for told in places.values()]
    left = []
    turns = survey.forget()
    try:
        while True:
            turns.send(None)
            left.append(sum(map(len, of_partitions)))
    except StopIteration:
        pass

    assert left == [FREED_PER_TURN + 1, 1]
    assert not places
