"""A full disk and a damaged log under acks=all load: the short form of `python -m tests.process.unfit_disks`."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest

from syncline.model.broker_config import BrokerConfig
from tests.cluster import LocalCluster
from tests.process import unfit_disks
from tests.process.unfit_disks import LED_ELSEWHERE_S, TOPIC, VICTIM

pytestmark = pytest.mark.process

# Other tests use the machine at the same time. `python -m tests.process.unfit_disks` has the limits without them; what
# this test guards against, a broker that keeps its leaderships, has no end. A broker whose session had to end first
# would be late here, too.
SLOWNESS = 2.5
assert LED_ELSEWHERE_S * SLOWNESS < BrokerConfig().broker_session_timeout_ms / 1_000


def ask(cluster: LocalCluster, *arguments: str) -> Any:
    """Return what a command of `syncline` prints, as JSON."""
    command = [sys.executable, "-m", "syncline", *arguments, "--json", "--data", str(cluster.directory)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def test_unfit_broker_hands_over_and_comes_back() -> None:
    """Guards: a full broker, or one whose log was damaged, kept its leaderships, and no tool said what was wrong."""
    seen: dict[str, Any] = {}

    def look(cluster: LocalCluster, fault: str, _began: datetime) -> None:
        if fault == "full":
            rows = ask(cluster, "isr", TOPIC)["partitions"]
            seen["troubles"] = {
                each["trouble"] for row in rows for each in row["followers"] if each["broker"] == VICTIM
            }
        seen[fault] = {ask(cluster, "why", f"{TOPIC}:{partition}")["cause"] for partition in range(3)}

    try:
        outcomes = unfit_disks.run(["full", "flip"], 1, lambda _: None, look)
    except OSError as error:
        pytest.skip(str(error))

    assert [each for each in outcomes if not each.is_good_on(SLOWNESS)] == []
    assert seen["troubles"] == {"no-room"}
    assert seen["full"] == {"disk-full"}
    assert "log-damaged" in seen["flip"]
