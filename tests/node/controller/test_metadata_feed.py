"""What a controller keeps of the changes that it has sent to brokers."""

from collections.abc import Callable

import pytest

from syncline.coordination.port import Batch
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.metadata import MetadataImage
from syncline.node.controller.metadata_feed import HISTORY_SPARE_CHARS, MetadataFeed
from syncline.node.controller.private_messages import News, Poll, decode_news

# So many changes, each of a kilobyte, are more than the spare ones.
MANY = 2 * HISTORY_SPARE_CHARS // 1_000


class Feed:
    """A feed, and what its brokers got."""

    def __init__(self, history_batches_max: int) -> None:
        self._feed = MetadataFeed(1, history_batches_max=history_batches_max)
        self._image = MetadataImage()

    def commit(self, count: int) -> None:
        """Commit changes of a kilobyte each."""
        for _ in range(count):
            self._image = self._image.apply((), self._image.version + 1)
            self._feed.remember([Batch(self._image.version, "x" * 1_000)])
            self._feed.spread(self._image)
            self._feed.check_invariants(self._image)

    def poll(self, broker: int, behind: int) -> Callable[[], News]:
        """Ask for what came after the version that is so many changes old; return what was answered so far."""
        answers: list[bytes] = []
        poll = Poll(BrokerId(broker), BrokerEpoch(1), self._image.version - behind)
        self._feed.poll(poll, answers.append, self._image)
        self._feed.check_invariants(self._image)
        return lambda: decode_news(answers[-1], 0)


@pytest.fixture
def feed() -> Feed:
    """Return a feed after many changes that two brokers have."""
    feed = Feed(history_batches_max=4 * MANY)
    for broker in (1, 2):
        feed.poll(broker, 0)
    feed.commit(MANY)
    for broker in (1, 2):
        feed.poll(broker, 0)
    return feed


def test_what_all_brokers_have_is_forgotten(feed: Feed) -> None:
    """Thousands of topics that were made and deleted would stay in the controller's memory until as many others."""
    assert feed.poll(3, MANY)().is_snapshot


def test_last_changes_are_kept_for_a_broker_that_comes_back(feed: Feed) -> None:
    """It was away for a moment."""
    assert not feed.poll(3, MANY // 4)().is_snapshot


def test_what_one_broker_lacks_is_kept_for_it(feed: Feed) -> None:
    """A snapshot of a large cluster takes longer than the changes."""
    feed.commit(MANY)
    feed.poll(1, 0)

    assert not feed.poll(2, MANY)().is_snapshot


def test_broker_that_stays_away_does_not_keep_everything() -> None:
    """At most so many changes are kept."""
    feed = Feed(history_batches_max=MANY)
    feed.poll(1, 0)
    feed.poll(2, 0)
    feed.commit(MANY + 1)

    assert feed.poll(1, MANY + 1)().is_snapshot
    assert not feed.poll(2, MANY)().is_snapshot
