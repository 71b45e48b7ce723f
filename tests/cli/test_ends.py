"""Where partitions end: what a silent leader does not tell hides nothing of the others."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from syncline.cli import ends
from syncline.cli.ends import known_offsets, leaders_of, offsets
from syncline.local.layout import LocalClusterError
from tests.cli.kafka_admin import done

LED = {("t", 0): 1, ("t", 1): 2, ("t", 2): 1, ("t", 3): -1}
# What the library has for a partition of which it was told nothing.
INVALID = -1001


class _Admin:
    """An admin client of a cluster in which each broker leads some of these partitions."""

    def __init__(self, answers: Mapping[int, Any]) -> None:
        self._answers = answers
        self.requests: list[set[int]] = []

    def list_offsets(self, wanted: Mapping[Any, Any], *, request_timeout: float) -> dict[Any, Any]:
        """Return what each leader answers; nobody waits here."""
        assert request_timeout > 0
        leaders = {LED[place.topic, place.partition] for place in wanted}
        self.requests.append(leaders)
        answer = self._answers[next(iter(leaders))]
        return {place: _late() if answer is None else done(answer) for place in wanted}


def _late() -> Any:
    def result(_within_s: float) -> Any:
        raise TimeoutError

    return SimpleNamespace(result=result)


def _at(offset: int) -> Any:
    return SimpleNamespace(offset=offset)


@pytest.mark.parametrize(
    "silence",
    [
        pytest.param(_at(INVALID), id="as-the-library-does"),
        pytest.param(KafkaException(KafkaError(KafkaError._TIMED_OUT)), id="as-it-documents"),
        pytest.param(None, id="no-result-in-time"),
    ],
)
def test_partitions_of_a_silent_leader_are_unknown_and_it_is_named(silence: Any) -> None:
    """Guards: an end of -1,001 and a lag of 0 were shown, and ends that were known were missing."""
    admin, troubles = _Admin({1: _at(10), 2: silence}), {}

    found = known_offsets(admin, LED, OffsetSpec.latest(), troubles, patience_s=5)

    assert found == {("t", 0): 10, ("t", 2): 10}
    assert troubles == {("t", 1): "broker 2 does not answer within 5 s", ("t", 3): "LEADER_NOT_AVAILABLE"}
    # One for each leader: the library answers when all that one asks about have.
    assert admin.requests == [{1}, {2}]


def test_leader_that_was_silent_is_not_asked_again() -> None:
    """Each question would wait for it."""
    admin = _Admin({1: _at(10), 2: _at(INVALID)})
    troubles: dict[tuple[str, int], str] = {}
    known_offsets(admin, LED, OffsetSpec.earliest(), troubles)

    known_offsets(admin, LED, OffsetSpec.latest(), troubles)

    assert admin.requests == [{1}, {2}, {1}]


def test_time_without_a_record_is_an_answer() -> None:
    """It is -1."""
    assert offsets(_Admin({1: _at(-1)}), {("t", 0): 1}, OffsetSpec.for_timestamp(1)) == {("t", 0): -1}


def test_refusal_names_the_silent_leader() -> None:
    """Guards: "no answer within 15 s", of which broker was for the user to find out."""
    with pytest.raises(LocalClusterError, match=r"^cannot read offsets of t-1: broker 2 does not answer within 5 s$"):
        offsets(_Admin({1: _at(1), 2: None}), {("t", 0): 1, ("t", 1): 2}, OffsetSpec.latest())


def test_leaders_are_those_of_the_metadata() -> None:
    """By topic and partition, in order."""
    partitions = {1: SimpleNamespace(leader=-1), 0: SimpleNamespace(leader=3)}

    assert list(leaders_of("t", partitions).items()) == [(("t", 0), 3), (("t", 1), -1)]
    assert ends.leaders_of("t", {}) == {}
