"""What a start leaves out: modules that no broker needs before it serves are imported when they are needed.

A broker starts in tenths of a second because it imports little. The price of an import at the top of a module shows in
no other test, so this one names what must not be there.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import start_cluster

pytestmark = pytest.mark.process

# Each is needed only after something has gone wrong, or for requests that come later; names stand for all below them.
LATER: Final = (
    # Of ours.
    "syncline.cli.commands",
    "syncline.core.cluster.config_changes",
    "syncline.core.cluster.leader_elections",
    "syncline.core.cluster.topics",
    "syncline.core.groups",
    "syncline.core.lag.commit_slab",
    "syncline.core.lag.findings",
    "syncline.explain",
    "syncline.node.control.verbs",
    "syncline.node.controller.admin",
    "syncline.node.controller.quorum",
    "syncline.node.faults.error_replies",
    "syncline.node.faults.links",
    "syncline.node.faults.registry",
    "syncline.node.faults.requests",
    "syncline.node.faults.rules",
    "syncline.node.faults.table",
    "syncline.node.groups.coordinator",
    "syncline.node.lag.commits",
    "syncline.node.lag.ends",
    "syncline.node.lag.messages",
    "syncline.node.metrics",
    "syncline.storage.recovery.mending",
    "syncline.wire.stepwise",
    # Of others.
    "_hashlib",
    "_ssl",
    "confluent_kafka",
    "difflib",
    "email",
    "hashlib",
    "hmac",
    "http",
    "numpy",
    "secrets",
    "tempfile",
    "typer",
)


def imported_in(log: Path) -> set[str]:
    """Return the modules whose import a process reported (PYTHONPROFILEIMPORTTIME), up to the moment it served."""
    before, _, _ = log.read_text().partition("serving clients on port")
    return set(re.findall(r"^import time:[ 0-9|]+\| +([\w.]+)$", before, re.MULTILINE))


def test_start_imports_nothing_that_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the start-up time; the supervisor's imports count, too, since brokers wait for them."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    cluster = start_cluster(1, directory=tmp_path, restart=False)
    try:
        imported = imported_in(tmp_path / "up.log") | imported_in(tmp_path / "logs" / "broker-1.log")
    finally:
        cluster.stop()

    early = sorted(
        module for module in imported for later in LATER if module == later or module.startswith(f"{later}.")
    )

    assert {"syncline.node.broker", "syncline.local.broker_process", "asyncio"} <= imported, "the log cannot be read"
    assert not early, "imported before the broker serves, though needed later if at all"
