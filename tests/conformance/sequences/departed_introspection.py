"""What tools see while a broker is away: eligible leader replicas, no leader, brokers that are gone."""

from tests.conformance.apis import DESCRIBE_TOPIC_PARTITIONS, LIST_CONFIG_RESOURCES, latest
from tests.conformance.requests import describe_topics, list_config_resources
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, Departure, sequence, topic

WORLD = DEPARTED


@sequence(
    latest(DESCRIBE_TOPIC_PARTITIONS),
    a=topic((3, 0, 1), min_insync_replicas="3"),
    b=topic((3, 0, 1), min_insync_replicas="2"),
    c=topic((3,)),
    d=topic((3, 0), min_insync_replicas="2"),
)
def eligible_leader_replicas(version: int) -> list[Action]:
    """Below the minimum a member that left may still lead; a partition whose only replica left has no leader."""
    return [Departure(), describe_topics(version, "a", "b", "c", "d")]


@sequence(latest(LIST_CONFIG_RESOURCES), t=topic((0,)))
def brokers_that_are_away(version: int) -> list[Action]:
    """They have configurations, too."""
    return [Departure(), list_config_resources(version, 4, 8)]
