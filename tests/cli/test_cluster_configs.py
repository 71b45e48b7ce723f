"""`configs alter broker all` and `describe broker all`: values for all brokers."""

import pytest

from tests.cli.terminal import as_json, refused, succeed

pytestmark = pytest.mark.process


def test_configuration_of_all_brokers_is_set_and_unset(at: tuple[str, str]) -> None:
    """Each broker shows the value as the cluster's, until it is unset."""
    name = "leader.relinquish.window.ms"
    assert "altered all brokers" in succeed("configs", "alter", "broker", "all", "--set", f"{name}=300000", *at)
    for broker in ("1", "2", "3"):
        rows = {row["name"]: row for row in as_json("configs", "describe", "broker", broker, *at)}
        assert (rows[name]["value"], rows[name]["source"]) == ("300000", "cluster")
    (row,) = (row for row in as_json("configs", "describe", "broker", "all", *at) if row["name"] == name)
    assert (row["value"], row["source"]) == ("300000", "cluster")
    assert as_json("configs", "alter", "broker", "all", "--unset", name, *at) == {"altered": "all"}
    assert name not in succeed("configs", "describe", "broker", "all", *at)
    assert name not in succeed("configs", "describe", "broker", "1", *at)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("replica.lag.mode=fast", "String must be one of: time, lag-begin, messages"),
        ("follower.fetch.pending.insync.max.ms=5", "should be -1 or at least replica.lag.time.max.ms"),
        ("node.id=7", "Cannot update these configs dynamically"),
    ],
)
def test_configuration_of_all_brokers_is_refused_in_a_sentence(
    at: tuple[str, str], change: str, complaint: str
) -> None:
    """The message names the invalid value, and no configuration changes."""
    assert complaint in refused("configs", "alter", "broker", "all", "--set", change, *at)


def test_unknown_configuration_is_noted_but_set(at: tuple[str, str]) -> None:
    """Kafka stores unknown names, for plug-ins; the command warns of them, because they may be typing errors."""
    succeed("configs", "alter", "broker", "all", "--set", "no.such.name=1", *at)
    succeed("configs", "alter", "broker", "all", "--unset", "no.such.name", *at)
