"""Each sequence, replayed against Syncline, is answered as Apache Kafka answered it."""

import pytest

from tests.conformance.catalogue import collect
from tests.conformance.compare import differences, unexplained
from tests.conformance.conftest import Clusters
from tests.conformance.divergences import DIVERGENCES, Divergence
from tests.conformance.record import read
from tests.conformance.steps import Sequence

SEQUENCES = collect()
RECORDED = read()
SHOWN_MAX = 12

pytestmark = pytest.mark.process


@pytest.mark.parametrize("sequence", SEQUENCES, ids=[each.name for each in SEQUENCES])
def test_syncline_answers_as_kafka_does(sequence: Sequence, clusters: Clusters) -> None:
    """Every reply of the sequence equals the recorded one, but for the differences that are intended."""
    recorded = RECORDED[sequence.name]

    replayed = clusters.play(sequence)

    left, _ = unexplained(differences(sequence.name, recorded, replayed))
    if left:
        shown = "\n".join(str(each) for each in left[:SHOWN_MAX])
        pytest.fail(f"{sequence.about}\n{shown}\n{len(left)} differences", pytrace=False)
    assert [row.get("request") for row in recorded] == [row.get("request") for row in replayed], "record this again"


def test_every_divergence_is_seen(clusters: Clusters) -> None:
    """A divergence that no longer shows must be taken off the list."""
    seen: set[Divergence] = set()
    for sequence in SEQUENCES:
        _, explained = unexplained(differences(sequence.name, RECORDED[sequence.name], clusters.play(sequence)))
        seen |= explained

    assert seen == set(DIVERGENCES)


def test_recordings_and_sequences_belong_together() -> None:
    """Nothing is recorded that is not declared, nothing declared that is not recorded."""
    assert set(RECORDED) == {each.name for each in SEQUENCES}
