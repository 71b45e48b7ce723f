"""Profiles and configurations of `up`: what brokers accept, and what is refused before anything starts."""

import pytest

from syncline.cli.up import checked_configs
from syncline.local.layout import LocalClusterError
from syncline.local.profiles import PROFILES
from syncline.model.broker_config import BROKER_CONFIGS


@pytest.mark.parametrize("name", PROFILES)
def test_profile_is_a_valid_configuration(name: str) -> None:
    """A broker takes every profile as it is."""
    assert checked_configs(None, name) == PROFILES[name]


@pytest.mark.parametrize("name", PROFILES)
def test_profile_repeats_no_default(name: str) -> None:
    """A default in a profile would be shown as set by the broker, on every topic that inherits it."""
    repeated = {key for key, value in PROFILES[name].items() if BROKER_CONFIGS[key].default == value}
    assert repeated == set()


def test_profile_test_refuses_the_sessions_that_suites_expect_refused() -> None:
    """Client suites join with a session of a second, and expect one of 100 ms to be refused."""
    assert PROFILES["test"]["group.min.session.timeout.ms"] == "1000"


def test_own_configuration_wins_over_the_profile() -> None:
    """Names and values are trimmed; a value may hold an equals sign or nothing."""
    configs = checked_configs([" num.partitions = 9", "broker.rack=a=b"], "test")
    assert configs == {**PROFILES["test"], "num.partitions": "9", "broker.rack": "a=b"}


@pytest.mark.parametrize(
    ("pairs", "profile", "complaint"),
    [
        (["x"], None, "--config takes NAME=VALUE, not 'x'"),
        (["=x"], None, "--config takes NAME=VALUE"),
        (["num.partition=3"], None, "Unknown broker config name: num.partition. Did you mean num.partitions?"),
        (["num.partitions=many"], None, "Invalid value many for configuration num.partitions"),
        (["node.id=7"], None, "--config cannot set node.id"),
        (["listeners=PLAINTEXT://:1"], None, "--config cannot set listeners: --port decides it"),
        (["process.roles=broker"], None, "--config cannot set process.roles: the broker decides it"),
        (["broker.session.timeout.ms=1"], None, "at least twice broker.heartbeat.interval.ms"),
        (None, "fast", "there is no profile 'fast'. Known: test."),
    ],
)
def test_bad_configuration_is_refused_in_a_sentence(
    pairs: list[str] | None, profile: str | None, complaint: str
) -> None:
    """What is wrong is named, with a hint where there is one."""
    with pytest.raises(LocalClusterError) as caught:
        checked_configs(pairs, profile)
    assert complaint in str(caught.value)
