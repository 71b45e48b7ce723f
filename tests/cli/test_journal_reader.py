"""A journal that cannot be read is refused with the broker that leads it, and what to do."""

from types import SimpleNamespace
from typing import Any

import pytest

from syncline.cli.journal_reader import read_events
from syncline.local.layout import LocalClusterError
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


@pytest.mark.parametrize(
    ("leader", "told"), [(2, "Broker 2 leads the journal"), (-1, "The journal has no leader now")], ids=["led", "none"]
)
def test_journal_whose_leader_does_not_answer_is_refused_with_what_to_do(leader: int, told: str) -> None:
    """Guards: only the name of an internal topic was told."""
    with pytest.raises(LocalClusterError) as refusal:
        read_events("127.0.0.1:1", SilentLeader(leader), 0, lambda *_: True)

    assert told in str(refusal.value)
    assert "ry again" in str(refusal.value)
