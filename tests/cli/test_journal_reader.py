"""A journal that cannot be read is refused with the broker that leads it, and what to do."""

from types import SimpleNamespace
from typing import Any

import pytest

from syncline.cli import journal_reader
from syncline.cli.journal_reader import JournalSilentError, read_events
from syncline.model.ids import JOURNAL_TOPIC


class SilentLeader:
    """An admin client of a cluster in which the journal's leader answers nothing."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def list_topics(self, timeout: float) -> Any:
        """Return the journal's metadata, which any broker has."""
        partition = SimpleNamespace(leader=self._leader)
        return SimpleNamespace(topics={JOURNAL_TOPIC: SimpleNamespace(partitions={0: partition})})

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Any]:
        """Return futures that get no result."""
        return dict.fromkeys(wanted, self)

    def result(self, timeout: float) -> Any:
        """Return no offset."""
        raise TimeoutError


@pytest.fixture(autouse=True)
def is_hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader tries for a tenth of a second, not for as long as an election may take."""
    monkeypatch.setattr(journal_reader, "READ_TIMEOUT_S", 0.1)
    monkeypatch.setattr(journal_reader, "PAUSE_S", 0.01)


@pytest.mark.parametrize(
    ("leader", "told"), [(2, "Broker 2 leads the journal"), (-1, "The journal has no leader now")], ids=["led", "none"]
)
def test_journal_whose_leader_does_not_answer_is_refused_with_what_to_do(leader: int, told: str) -> None:
    """Guards: only the name of an internal topic was told."""
    with pytest.raises(JournalSilentError) as refusal:
        read_events("127.0.0.1:1", SilentLeader(leader), 0, lambda *_: True)

    assert told in str(refusal.value)
    assert "ry again" in str(refusal.value)


def test_journal_is_asked_again_until_another_broker_leads_it() -> None:
    """Guards: `why` gave up after one answer that did not come, although the next leader was elected meanwhile."""
    leader = SilentLeader(2)
    asked: list[float] = []

    class LaterLed(SilentLeader):
        """Another broker leads with the third look, and refuses in another way, so that this one is seen."""

        def list_topics(self, timeout: float) -> Any:
            """Return the metadata of the moment."""
            asked.append(timeout)
            return leader.list_topics(timeout) if len(asked) < 3 else SilentLeader(3).list_topics(timeout)

    with pytest.raises(JournalSilentError, match="Broker 3 leads the journal"):
        read_events("127.0.0.1:1", LaterLed(2), 0, lambda *_: True)
