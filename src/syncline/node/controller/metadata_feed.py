"""Sending committed metadata to brokers: the changes after their version, or a snapshot.

A broker polls with the version that it has. If there are later changes, it gets the next of them at once; otherwise the
poll is parked until the next commit. A poll also shows that the broker has applied everything up to its version. What
all brokers have applied is forgotten, except for a little: thousands of topics that are long deleted would stay in
memory, and as small objects, made while a large request was read, they would keep far more of it from being given back.

Invariants: the history holds consecutive versions and ends with the committed one; every parked poll has the committed
version; a broker has at most one parked poll.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from syncline.coordination.port import Batch
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage
from syncline.node.controller.private_messages import Poll, encode_deltas, encode_no_news, encode_snapshot

# Batches kept for brokers that lag behind; a broker that lags further gets a snapshot.
HISTORY_BATCHES_MAX: Final = 1_000
# What is kept of batches that every broker has, in characters: one that starts again may have been away for a moment.
HISTORY_SPARE_CHARS: Final = 8_192
# News end with the batch that brings them to this size: a broker applies them in one go, and each new partition has
# some hundred bytes, each deleted topic fifty. A broker that lags behind polls again, and does not fall behind further
# by ever larger news.
NEWS_BYTES_MAX: Final = 2_048

PollAnswer = Callable[[bytes], None]


class MetadataFeed:
    """The parked polls of all brokers, and the recent changes."""

    def __init__(self, lease_epoch: int, *, history_batches_max: int = HISTORY_BATCHES_MAX) -> None:
        self._lease_epoch = lease_epoch
        self._history: deque[Batch] = deque()
        self._history_batches_max = history_batches_max
        self._history_chars = 0
        self._parked: dict[BrokerId, tuple[Poll, PollAnswer]] = {}
        # Which version each broker had when it last polled.
        self._had: dict[BrokerId, int] = {}

    def poll(self, poll: Poll, answer: PollAnswer, committed: MetadataImage) -> None:
        """Answer with the changes after the broker's version, once there are some."""
        earlier = self._parked.pop(poll.broker_id, None)
        self._had[poll.broker_id] = poll.version
        self._forget()
        if earlier is not None:
            earlier[1](encode_no_news(ErrorCode.NONE))
        if poll.version == committed.version:
            self._parked[poll.broker_id] = (poll, answer)
        else:
            answer(self._news_since(poll.version, committed))

    def remember(self, batches: Sequence[Batch]) -> None:
        """Keep committed batches for later polls."""
        assert not self._history or batches[0].version == self._history[-1].version + 1, (
            f"version {batches[0].version} was committed after {self._history[-1].version}"
        )
        self._history.extend(batches)
        self._history_chars += sum(len(batch.text) for batch in batches)
        self._forget()

    def spread(self, committed: MetadataImage) -> None:
        """Answer all parked polls with the new changes."""
        parked, self._parked = self._parked, {}
        news: dict[int, bytes] = {}
        for poll, answer in parked.values():
            body = news.get(poll.version)
            if body is None:
                body = news[poll.version] = self._news_since(poll.version, committed)
            answer(body)

    def close(self) -> None:
        """Refuse all parked polls, so that brokers poll the next controller."""
        parked, self._parked = self._parked, {}
        for _, answer in parked.values():
            answer(encode_no_news(ErrorCode.NOT_CONTROLLER))

    def _news_since(self, version: int, committed: MetadataImage) -> bytes:
        missing = committed.version - version
        if not 0 < missing <= len(self._history):
            return encode_snapshot(committed, self._lease_epoch)
        recent: list[Batch] = []
        size_bytes = 0
        for index in range(len(self._history) - missing, len(self._history)):
            recent.append(self._history[index])
            size_bytes += len(recent[-1].text)
            # A process that has just started gets everything: its logs are ahead of what it would pass through.
            if version and size_bytes >= NEWS_BYTES_MAX:
                break
        return encode_deltas(recent, self._lease_epoch, recent[-1].version)

    def _forget(self) -> None:
        """Drop the oldest batches: what every broker has, except for the spare ones, and what is beyond the maximum."""
        history = self._history
        everywhere = min(self._had.values(), default=0)
        while history and (
            len(history) > self._history_batches_max
            or (history[0].version <= everywhere and self._history_chars > HISTORY_SPARE_CHARS)
        ):
            self._history_chars -= len(history.popleft().text)

    def check_invariants(self, committed: MetadataImage) -> None:
        """Assert that history and polls agree with the committed image."""
        chars = sum(len(batch.text) for batch in self._history)
        assert chars == self._history_chars, f"{chars} characters are kept, {self._history_chars} are counted"
        for older, newer in zip(self._history, list(self._history)[1:], strict=False):
            assert newer.version == older.version + 1, f"the history has {newer.version} after {older.version}"
        assert not self._history or self._history[-1].version == committed.version, (
            f"the history ends with version {self._history[-1].version}, committed is {committed.version}"
        )
        for poll, _ in self._parked.values():
            assert poll.version == committed.version, (
                f"broker {poll.broker_id} waits with version {poll.version}, committed is {committed.version}"
            )
