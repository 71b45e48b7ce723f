"""What tests of the commands share."""

import itertools
from collections.abc import Callable

import pytest

from tests.cli import terminal
from tests.cluster import LocalCluster

_NUMBERS = itertools.count(1)


@pytest.fixture
def at(three_brokers: LocalCluster) -> tuple[str, str]:
    """The options that point a command at the shared cluster."""
    return "--data", str(three_brokers.directory)


@pytest.fixture
def make_topic(at: tuple[str, str]) -> Callable[..., str]:
    """Create a topic with options of `topics create`; return its name."""

    def make(*options: str) -> str:
        name = f"cli-{next(_NUMBERS)}"
        terminal.succeed("topics", "create", name, *options, *at)
        return name

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic with two partitions."""
    return make_topic("--partitions", "2")
