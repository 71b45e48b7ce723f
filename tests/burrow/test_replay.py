"""The comparison with Burrow: lines of its log as it writes them, and a judgement that does not follow from them."""

from typing import Any

import pytest

from tests.burrow.replay import Replay

PLACE = {"consumer": "g", "topic": "t", "partition": 0, "msg": "ok"}


def lines(status: str, total_lag: int) -> list[dict[str, Any]]:
    """Return the log of a group that stopped 30 s ago with a lag of 50, and how Burrow judged it."""
    end = {**PLACE, "consumer": "", "request": "StorageSetBrokerOffset", "timestamp": 0}
    committed = {**PLACE, "request": "StorageSetConsumerOffset"}
    return [
        {**end, "ts": 1_000.0, "offset": 100},
        {**committed, "ts": 1_001.5, "offset": 90, "timestamp": 1_001_000, "lag": 10},
        {**committed, "ts": 1_011.5, "offset": 95, "timestamp": 1_011_000, "lag": 5},
        {**end, "ts": 1_012.0, "offset": 145},
        *({**end, "ts": 1_013.0 + number, "offset": 145} for number in range(10)),
        {**PLACE, "ts": 1_041.2, "request": "StorageFetchConsumer"},
        {"msg": "evaluation result", "consumer": "g", "ts": 1_041.3, "status": status, "total_lag": total_lag},
    ]


@pytest.mark.parametrize(("status", "lag", "is_equal"), [("ERR", 50, True), ("WARN", 50, False), ("ERR", 49, False)])
def test_judgement_is_compared_with_ours(status: str, lag: int, is_equal: bool) -> None:
    """STOP makes the group ERR, with the lag to the newest end."""
    replay = Replay()
    replay.read(lines(status, lag))

    assert [each.is_equal for each in replay.evaluations] == [is_equal]
    assert replay.wrong_lags == []


@pytest.mark.parametrize(("status", "is_explained"), [("STOP", True), ("STALL", False)])
def test_answer_is_compared_partition_by_partition(status: str, is_explained: bool) -> None:
    """Burrow lists partitions without a commit, too, of which it knows nothing."""
    replay = Replay()
    replay.read(lines("ERR", 50))
    known = {"topic": "t", "partition": 0, "status": status, "current_lag": 50, "start": {}}
    unknown = {"topic": "t", "partition": 1, "status": "OK", "current_lag": 0, "start": None}

    answer = {"group": "g", "partitions": [known, unknown]}
    assert replay.explains(answer, 1_041.1, 1_041.4, 1) is is_explained
    assert not replay.explains(answer, 1_051.1, 1_051.4, 1)


def test_lag_that_burrow_sees_otherwise_is_reported() -> None:
    """The lag of a commit is part of its inputs to come."""
    replay = Replay()
    log = lines("ERR", 50)
    log[1]["lag"] = 11
    replay.read(log)

    assert len(replay.wrong_lags) == 1
