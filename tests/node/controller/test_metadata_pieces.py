"""News to brokers that lag behind: how much they bring at once."""

from syncline.coordination.port import Batch
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.metadata import MetadataImage
from syncline.node.controller.metadata_feed import NEWS_BYTES_MAX, MetadataFeed
from syncline.node.controller.private_messages import Poll, decode_news

TEXT = '["x"]'.ljust(NEWS_BYTES_MAX // 2)
COMMITTED = 50


def news_of(feed: MetadataFeed, version: int, committed: int) -> tuple[int, int]:
    """Return the version to which a broker with this one is brought, and by how many bytes."""
    bodies: list[bytes] = []
    feed.poll(Poll(BrokerId(1), BrokerEpoch(1), version), bodies.append, MetadataImage(version=committed))
    (body,) = bodies
    return decode_news(body, 0).version, len(body)


def test_broker_that_lags_behind_gets_a_little_at_a_time() -> None:
    """All at once would hold its loop for as long as it takes, and make it lag further."""
    feed = MetadataFeed(1)
    feed.remember([Batch(version, TEXT) for version in range(1, COMMITTED + 1)])
    version, polls = 1, 0
    while version < COMMITTED:
        version, size_bytes = news_of(feed, version, COMMITTED)
        polls += 1

        assert size_bytes < NEWS_BYTES_MAX + 1.1 * len(TEXT)
    assert polls == COMMITTED // 2


def test_one_batch_is_not_divided() -> None:
    """However large: it is what was decided together."""
    feed = MetadataFeed(1)
    feed.remember([Batch(1, TEXT), Batch(2, '["x"]'.ljust(3 * NEWS_BYTES_MAX)), Batch(3, TEXT)])

    assert [news_of(feed, version, 3)[0] for version in (1, 2)] == [2, 3]


def test_broker_that_starts_gets_everything_at_once() -> None:
    """Its logs are of later epochs than the roles that it would be given on the way."""
    feed = MetadataFeed(1)
    feed.remember([Batch(version, TEXT) for version in range(1, COMMITTED + 1)])

    assert news_of(feed, 0, COMMITTED)[0] == COMMITTED
