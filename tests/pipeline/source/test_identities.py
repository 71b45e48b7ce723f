"""What a query with topic ids says of topics that are gone: what its options say, not what has their names now."""

import json

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.errors import OptionError
from syncline.pipeline.source.identities import gaps_of, topics_gone
from syncline.pipeline.source.options import SourceOptions

IDS = json.dumps({"flights": "an-id"})


def _options(**given: str) -> SourceOptions:
    return SourceOptions.parse({"bootstrap": "h:1", "topicIds": IDS, **given}, streaming=False)


@pytest.mark.parametrize(
    ("ids", "sentences"),
    [
        ({"flights": "an-id"}, []),
        ({"flights": ""}, []),
        ({"flights": "other"}, ["topic flights was deleted and created again: its id is other"]),
        ({}, ["topic flights was deleted: topicIds says an-id, but there is no topic of that name"]),
    ],
)
def test_topics_are_known_by_their_ids(ids: dict[str, str], sentences: list[str]) -> None:
    """A broker that tells no ids tells nothing of a topic that exists."""
    told = topics_gone(_options(subscribe="flights"), ids)

    assert [any(what.startswith(each) for what in told.values()) for each in sentences] == [True] * len(told)


@pytest.mark.parametrize("given", [{"subscribe": "delays"}, {"assign": '{"delays": [0]}'}, {"subscribePattern": "d.*"}])
def test_ids_of_topics_that_are_not_read_are_refused(given: dict[str, str]) -> None:
    """They would protect nothing."""
    with pytest.raises(OptionError, match="topicIds names flights, which the query does not read"):
        topics_gone(_options(**given), {"flights": "an-id"})


@pytest.mark.parametrize(
    ("given", "present", "gaps"),
    [
        ({"subscribe": "flights"}, [], [(0, 0, None)]),
        ({"subscribePattern": "f.*"}, [0, 1], [(0, 0, None), (1, 0, None)]),
        ({"assign": '{"flights": [2]}', "endingOffsets": '{"flights": {"2": -1}}'}, [0, 1], [(2, 0, None)]),
        (
            {
                "assign": '{"flights": [0, 3]}',
                "startingOffsets": '{"flights": {"0": 4, "3": 6}}',
                "endingOffsets": '{"flights": {"0": 9, "3": 6}}',
            },
            [0],
            [(0, 4, 9)],
        ),
        ({"subscribe": "flights", "startingTimestamp": "5"}, [0], [(0, 0, None)]),
    ],
)
def test_gaps_have_what_the_options_say(given: dict[str, str], present: list[int], gaps: list) -> None:
    """Times say no offsets, and neither does latest; a span of no offsets is none."""
    places = [TopicPartition("flights", number) for number in present]

    found = gaps_of(_options(**given), {"flights": "gone"}, [*places, TopicPartition("other", 0)])

    assert [(gap.place.partition, gap.start, gap.end) for gap in found] == gaps
