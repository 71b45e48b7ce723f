"""Pages of topics: all partitions once, in order, however small the pages are and whatever happens between two."""

from collections.abc import Generator, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from syncline.core.cluster.topic_pages import Page, Place, page
from syncline.model.metadata import PartitionRecord, Topic

_T = TypeVar("_T")


def ended(steps: Generator[None, None, _T]) -> _T:
    """Take all steps; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def topics(counts: Mapping[str, int]) -> dict[str, Topic]:
    """Return topics with so many partitions."""
    return {
        name: Topic(name, UUID(int=1), tuple(PartitionRecord(each, 1, 0, 0, (1,), (1,)) for each in range(count)))
        for name, count in counts.items()
    }


def page_of(known: Mapping[str, Topic], names: Iterable[str], first: Place | None, most: int) -> Page:
    """Return one page."""
    return ended(page(known, names, first=first, partitions_max=most))


def shown(found: Page) -> list[tuple[str, int, int]]:
    """Return the spans of a page."""
    return [(each.name, each.start, each.end) for each in found.spans]


def test_x115_pages_go_on_where_the_last_one_ended() -> None:
    """Limit 7 over c3 (4), c1 (6), c2 (3)."""
    known = topics({"c3": 4, "c1": 6, "c2": 3})
    begun = page_of(known, known, None, 7)

    assert (shown(begun), begun.next) == ([("c1", 0, 6), ("c2", 0, 1)], Place("c2", 1))
    rest = page_of(known, known, begun.next, 7)
    assert (shown(rest), rest.next) == ([("c2", 1, 3), ("c3", 0, 4)], None)


def test_x116_full_pages_small_limits_and_places_beyond_the_end() -> None:
    """A full page names the next topic, which need not exist; a limit below 1 is 1."""
    known = topics({"c1": 6, "c2": 3})

    assert page_of(known, known, None, 6).next == Place("c2", 0)
    assert [shown(page_of(known, known, None, most)) for most in (0, -1)] == [[("c1", 0, 1)]] * 2
    beyond = page_of(known, known, Place("c1", 99), 2)
    assert (shown(beyond), beyond.next) == ([("c1", 6, 6), ("c2", 0, 2)], Place("c2", 2))
    assert page_of(known, ["c1", "zz"], None, 6).next == Place("zz", 0)


def test_a_topic_that_was_deleted_between_two_pages_is_passed_over() -> None:
    """The next page begins at the first name that is not smaller."""
    assert shown(page_of(topics({"c1": 6, "c3": 1}), ["c1", "c3"], Place("c2", 1), 7)) == [("c3", 0, 1)]


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 5)), st.lists(st.text("abcd", max_size=3))
)
def test_pages_hold_every_partition_once_and_in_order(counts: dict[str, int], others: list[str]) -> None:
    """Of any topics and any names, with the smallest and with larger pages."""
    known = topics(counts)
    names = [*counts, *others]
    for most in (1, 3, 1_000):
        found: list[tuple[str, int]] = []
        missing: list[str] = []
        place = None
        while True:
            this = page_of(known, names, place, most)
            partitions = [(each.name, number) for each in this.spans for number in range(each.start, each.end)]
            missing += [each.name for each in this.spans if each.topic is None]
            assert len(partitions) <= most
            found += partitions
            if this.next is None:
                break
            assert place is None or this.next > place
            place = this.next
        assert found == sorted((name, number) for name, count in counts.items() for number in range(count))
        assert missing == sorted(set(others) - counts.keys())


def test_no_step_takes_long_however_many_names_there_are() -> None:
    """Names are put in order in parts, and each is a step."""
    known = topics({"t9": 1})
    steps = page(known, [f"t{number % 2_500}" for number in range(5_000, 0, -1)], first=None, partitions_max=5)
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as end:
        found: Page = end.value

    assert count >= 5_000 + 2_500
    assert len(found.spans) == 2_500
