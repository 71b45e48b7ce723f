"""The journal while its leader is silent: read from a follower, or refused with the leader's number and what to do."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from syncline.cli import journal_reader
from syncline.cli.journal_copies import Copied, JournalCopy
from syncline.cli.journal_reader import JournalSilentError, read_events
from syncline.model.events import TopicChange, to_json
from syncline.model.ids import JOURNAL_TOPIC
from tests.cli.kafka_admin import done

CREATED = TopicChange(ts_ms=7, broker=1, topic="t", topic_id="", change="created", partitions=1)


class SilentLeader:
    """An admin client of a cluster in which the journal's leader answers nothing."""

    def __init__(self, leader: int, followers: Sequence[int] = ()) -> None:
        self._partition = SimpleNamespace(leader=leader, isrs=[leader, *followers] if leader >= 0 else [*followers])

    def list_topics(self, timeout: float) -> Any:
        """Return the journal's metadata, which any broker has."""
        return SimpleNamespace(topics={JOURNAL_TOPIC: SimpleNamespace(partitions={0: self._partition})})

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Any]:
        """Return what the library has for partitions of which it was told nothing."""
        return dict.fromkeys(wanted, done(SimpleNamespace(offset=-1001)))


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Sequence[int]]]:
    """Let followers have this copy; return whose is asked for."""
    asked: list[Sequence[int]] = []

    def serve(copy: JournalCopy | None) -> list[Sequence[int]]:
        def read(_servers: str, holders: Sequence[int], *arguments: Any) -> JournalCopy | None:
            asked.append(holders)
            is_useful = arguments[-1]
            return copy and copy._replace(records=[each for each in copy.records if is_useful(each)])

        monkeypatch.setattr(journal_reader, "read_copy", read)
        return asked

    return serve


@pytest.mark.parametrize(
    ("leader", "told"), [(2, "Broker 2 leads the journal"), (-1, "The journal has no leader now")], ids=["led", "none"]
)
@pytest.mark.parametrize("followers", [(), (1, 3)], ids=["alone", "followers-silent"])
def test_journal_that_nobody_can_read_is_refused_with_what_to_do(
    follower: Callable[..., list[Sequence[int]]], leader: int, told: str, followers: tuple[int, ...]
) -> None:
    """Guards: only the name of an internal topic was told."""
    follower(None)
    with pytest.raises(JournalSilentError) as refusal:
        read_events("127.0.0.1:1", SilentLeader(leader, followers), 0, lambda *_: True)

    assert told in str(refusal.value)
    assert "ry again" in str(refusal.value)


@pytest.mark.parametrize(
    ("leader", "remark"),
    [
        (2, "Broker 2 leads the journal and did not answer in time: this is from the copy on broker 3, which may lack"),
        (-1, "The journal has no leader now: this is from the copy on broker 3, which may lack"),
    ],
    ids=["led", "none"],
)
def test_journal_whose_leader_is_silent_is_read_from_a_follower(
    follower: Callable[..., list[Sequence[int]]], leader: int, remark: str
) -> None:
    """Guards: `why` took up to 25 s, until another broker led the journal. Records that are no events are left out."""
    records = [
        Copied(b"t-0", to_json(CREATED)),
        Copied(b"t-0", b"from a client"),
        Copied(b"u-0", to_json(CREATED)),
    ]
    asked = follower(JournalCopy(records, is_from_start=True, broker=3))

    journal = read_events("127.0.0.1:1", SilentLeader(leader, (1, 3)), 0, lambda _, key: key == b"t-0")

    assert journal.events == [CREATED]
    assert journal.began_ms == CREATED.ts_ms
    assert journal.remark.startswith(remark)
    assert asked == [[1, 3]]
