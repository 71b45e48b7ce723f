"""The form of the controller's decisions.

A decision is a function of the metadata image (and of what the controller remembers about sessions). It returns the
changes to commit, and the answer to give once they are committed. The controller does nothing before that, so one that
lost its lease meanwhile has answered nothing either.

Where neither the topic nor the cluster sets a value, the controller's own static configuration decides.
Invariant: a decision that changes anything has a reason, which the journal's events carry.
Source: KIP-500 (decisions as records of the metadata log); Kafka's ControllerResult.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar

from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import BLANKS
from syncline.model.metadata import CLUSTER_DEFAULTS, Change, MetadataImage
from syncline.model.reasons import Reason

Answer = TypeVar("Answer")

# Returns a number from 0 up to, not including, its argument.
Below = Callable[[int], int]


_NO_NUMBERS: Final[Mapping[str, int]] = MappingProxyType({})


class Why(NamedTuple):
    """Why the controller decided: the reason, and the numbers that it compared."""

    reason: Reason = Reason.UNKNOWN
    numbers: Mapping[str, int] = _NO_NUMBERS


_UNEXPLAINED: Final = Why()


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """What to commit, what to answer afterwards, and why."""

    changes: tuple[Change, ...]
    answer: Answer
    why: Why = _UNEXPLAINED

    def __post_init__(self) -> None:
        assert not self.changes or self.why.reason is not Reason.UNKNOWN, f"no reason for {self.changes[0]}"


class TopicRules(NamedTuple):
    """The configurations of a topic that elections need."""

    min_isr: int
    unclean: bool


def topic_rules(image: MetadataImage, topic: str, settings: BrokerConfig) -> TopicRules:
    """Return the rules of a topic: its own configuration over the cluster's over the controller's."""
    own = image.topic_configs(topic)
    cluster = image.configs.get(CLUSTER_DEFAULTS, {})
    min_isr = own.get("min.insync.replicas") or cluster.get("min.insync.replicas")
    unclean = own.get("unclean.leader.election.enable") or cluster.get("unclean.leader.election.enable")
    return TopicRules(
        settings.min_insync_replicas if min_isr is None else int(min_isr.strip(BLANKS)),
        settings.unclean_leader_election_enable if unclean is None else unclean.strip(BLANKS).lower() == "true",
    )
