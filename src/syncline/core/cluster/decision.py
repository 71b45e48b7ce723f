"""What the active controller decides with, and in what form.

A decision is a function of the metadata image (and of what the controller
remembers about sessions); it returns the changes to commit and the answer to
give once they are committed. Nothing is done before that: a controller that
lost its lease meanwhile has then said nothing either.

Settings are the controller's own static configuration where a topic and the
cluster leave a choice open.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from syncline.model.broker_config import BrokerConfig
from syncline.model.metadata import CLUSTER_DEFAULTS, Change, MetadataImage

Answer = TypeVar("Answer")

# Returns a number from 0 up to, not including, its argument.
Below = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """What to commit, what to answer then, and why, in words for the journal."""

    changes: tuple[Change, ...]
    answer: Answer
    reason: str = ""


class TopicRules(NamedTuple):
    """What elections need to know of a topic's configuration."""

    min_isr: int
    unclean: bool


def topic_rules(image: MetadataImage, topic: str, settings: BrokerConfig) -> TopicRules:
    """Return the rules of a topic: its own configuration over the cluster's over the controller's."""
    own = image.topic_configs(topic)
    cluster = image.configs.get(CLUSTER_DEFAULTS, {})
    min_isr = own.get("min.insync.replicas") or cluster.get("min.insync.replicas")
    unclean = own.get("unclean.leader.election.enable") or cluster.get("unclean.leader.election.enable")
    return TopicRules(
        settings.min_insync_replicas if min_isr is None else int(min_isr),
        settings.unclean_leader_election_enable if unclean is None else unclean.strip().lower() == "true",
    )
