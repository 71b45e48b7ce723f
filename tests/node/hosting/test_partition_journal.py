"""What a broker logs and journals of its partitions."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncline.core.replication.evidence import Evidence
from syncline.model.events import Event, Truncation
from syncline.model.ids import BrokerId, Offset, TopicPartition
from syncline.node.hosting.partition_journal import PartitionJournal
from syncline.node.partitions.partition import Partition

# It stands for parts that a compiled journal would check the types of.
pytestmark = pytest.mark.interpreted


def report(before: int, after: int, mark: int) -> list[Event]:
    """Report that a log was cut from one end to another; return what is journalled."""
    noted: list[Event] = []
    unused = cast("Any", None)
    journal = PartitionJournal(
        broker_id=BrokerId(1),
        clock=cast("Any", SimpleNamespace(wall_ms=lambda: 1_000, mono_ms=lambda: 10)),
        configs=unused,
        counters=unused,
        followers=unused,
        disk_watch=unused,
        note=noted.append,
    )
    log = SimpleNamespace(log_end=after)
    partition = SimpleNamespace(key=TopicPartition("t", 0), log=log, leader_epoch=4)
    evidence = Evidence("epoch-ends-differ", (("high_watermark", mark),))
    journal.truncated(cast("Partition", partition), 2, Offset(before), evidence)
    return noted


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        pytest.param(9, 7, logging.INFO, id="cut"),
        pytest.param(9, 5, logging.WARNING, id="below-the-watermark"),
        pytest.param(4, 70, logging.INFO, id="restarted-further-on"),
    ],
)
def test_truncation_is_logged_and_journalled(
    caplog: pytest.LogCaptureFixture, before: int, after: int, level: int
) -> None:
    """With both ends; a cut below the watermark loses what was committed, and is a warning."""
    with caplog.at_level(logging.INFO, "syncline.node"):
        (event,) = report(before, after, mark=7 if after < before else 4)

    assert isinstance(event, Truncation)
    assert (event.log_end_before, event.log_end_after) == (before, after)
    ((_, logged, text),) = caplog.record_tuples
    assert logged == level
    assert f"t-0: truncated {before} -> {after}" in text


def test_truncation_that_cut_nothing_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Guards: logs had lines such as "truncated 27940 -> 27940", and the journal events of cuts that were none."""
    with caplog.at_level(logging.DEBUG, "syncline.node"):
        noted = report(27_940, 27_940, mark=27_940)

    assert noted == []
    assert caplog.records == []
