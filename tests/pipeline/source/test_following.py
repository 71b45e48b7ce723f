"""Where a stream goes on: rules for topics that vanish, come back, grow or lose their ends; and positions as text."""

import json

from syncline.model.ids import TopicPartition
from syncline.pipeline.source.following import Seen, continued, moved
from syncline.pipeline.source.offsets import Position, as_json, from_json
from syncline.pipeline.source.presence import Present
from syncline.pipeline.source.topics import Topics

ZERO, ONE, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1), TopicPartition("trains", 0)
TOPICS = Topics(names=("flights", "trains"))
READ = Position({ZERO: 1000}, {"flights": "old"})


def _seen(ends: dict[TopicPartition, int], **ids: str) -> Seen:
    return Seen(Present(tuple(sorted(ends)), ids), ends)


def test_following_takes_a_topic_that_was_created_again_for_another_although_it_is_longer() -> None:
    """Guards: 1,000 records, then 1,500 under the same name gave the last 500 only, and no error."""
    course = continued(READ, _seen({ZERO: 1500}, flights="new"), TOPICS)

    assert course.fresh == (ZERO,)
    assert "topic flights was deleted and created again" in course.losses[0]


def test_following_knows_a_shorter_topic_for_another_without_ids() -> None:
    """A checkpoint of an earlier version has no ids; its offsets still tell that much."""
    course = continued(Position({ZERO: 1000}), _seen({ZERO: 400}, flights="new"), TOPICS)

    assert course.fresh == (ZERO,)
    assert "flights-0 ends at offset 400 but was already read to 1000" in course.losses[0]


def test_following_goes_on_where_a_log_was_cut() -> None:
    """The same topic with a shorter log: an unclean election. What comes from the new end on was never read."""
    course = continued(READ, _seen({ZERO: 900}, flights="old"), TOPICS)

    assert course.starts == {ZERO: 900}
    assert "its log was cut" in course.losses[0]


def test_following_keeps_the_place_of_a_topic_that_is_gone() -> None:
    """Guards: a stream dies when one of two topics is gone. The other goes on, and the id stays for when it is back."""
    read = Position({ZERO: 1000, OTHER: 7}, {"flights": "old", "trains": "t"})
    seen = _seen({OTHER: 9}, trains="t")

    course = continued(read, seen, TOPICS)

    assert course.losses == ("topic flights no longer exists",)
    assert course.starts == {OTHER: 7}
    assert moved(read, seen, {OTHER: 9}, {}) == Position({ZERO: 1000, OTHER: 9}, {"flights": "old", "trains": "t"})


def test_following_says_that_the_options_leave_out_what_was_read() -> None:
    """Guards: a query that is started again for another topic says that the first one no longer exists."""
    read = Position({ZERO: 1000, ONE: 7}, {"flights": "old"})

    other_topic = continued(read, _seen({OTHER: 9}, trains="t"), Topics(names=("trains",)))
    fewer_partitions = continued(read, _seen({ZERO: 1000}, flights="old"), Topics(assigned=(ZERO,)))

    assert other_topic.losses == ("topic flights is in the checkpoint, and the options no longer name it",)
    assert fewer_partitions.losses == ("flights-1 was read to offset 7, and the option assign no longer names it",)


def test_following_forgets_the_partitions_of_a_topic_that_was_created_again_smaller() -> None:
    """Partition 1 belongs to the old topic; under the new id it would wait for offsets of nothing."""
    read = Position({ZERO: 10, ONE: 10}, {"flights": "old"})

    assert moved(read, _seen({ZERO: 3}, flights="new"), {ZERO: 3}, {ZERO: 0}).offsets == {ZERO: 3}


def test_following_begins_a_new_partition_at_its_earliest_record() -> None:
    """A topic grew: what the new partition holds was never read."""
    course = continued(READ, _seen({ZERO: 1000, ONE: 5}, flights="old"), TOPICS)

    assert (course.starts, course.fresh, course.losses) == ({ZERO: 1000}, (ONE,), ())


def test_positions_survive_their_text_and_are_sorted() -> None:
    """Partition 10 comes after 2; the text is the same whatever the order of the parts."""
    places = [TopicPartition("flights", index) for index in (10, 2, 0)]
    position = Position(dict.fromkeys(places, 5), {"flights": "old"}, {ZERO: 1})

    text = json.dumps(as_json(position))

    assert text == '{"flights": {"0": 5, "2": 5, "10": 5, "id": "old", "from": {"0": 1}}}'
    assert from_json(json.loads(text)) == position


def test_positions_of_earlier_versions_are_read() -> None:
    """A checkpoint without ids goes on; the next position notes them."""
    read = from_json({"flights": {"0": 1000}})

    assert read == Position({ZERO: 1000})
    assert not read.is_other_topic("flights", "any")
    assert moved(read, _seen({ZERO: 1000}, flights="old"), {ZERO: 1000}, {}).has_moved_since(read)
