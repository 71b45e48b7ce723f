"""`syncline reassign status` while a broker that a move needs does not answer."""

import json
from collections.abc import Callable

import pytest

from syncline.cli import direct
from syncline.cli.reassign import status
from syncline.model.ids import TopicPartition
from tests.cli.scripted_kafka import Serve, at

FOO_0 = TopicPartition("foo", 0)
Plan = Callable[..., str]


@pytest.mark.parametrize("silent", [1, 5], ids=["source", "target"])
def test_status_names_the_broker_that_does_not_answer(
    serve: Serve, plan: Plan, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    """A paused broker is up for the controller until its session ends; its bytes are unknown, and so is the end."""
    monkeypatch.setattr(status, "SILENT_S", 0.5)
    monkeypatch.setattr(direct, "LATE_AGAIN_S", 0.1)
    kafka = serve(sizes={(FOO_0, 1): 4_000_000}, owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "3MB")
    kafka.sizes[FOO_0, 2], kafka.sizes[FOO_0, 5] = 4_000_000, 1_000_000
    kafka.silent = {silent}

    shown = at(kafka, "reassign", "status")
    facts = json.loads(at(kafka, "reassign", "status", "--json"))

    assert f"{'?' if silent == 5 else '25.0'} % of    4 MB  broker {silent} does not answer" in shown
    assert shown.endswith(f"broker {silent} does not answer. If it is paused or cut off, foo-0 waits for it.\n")
    assert [finding["cause"] for finding in facts["findings"]] == ["does-not-answer"]
    assert facts["replicas"][0]["done_bytes"] == (None if silent == 5 else 1_000_000)
    assert (facts["eta_s"], {part["measured_bytes_per_s"] for part in facts["brokers"]}) == (None, {None})
