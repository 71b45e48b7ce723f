"""Evidence: what a decision rested on, frozen when the decision is taken.

One hard idea: a decision can be retraced later only if its grounds were recorded.
Each decision names its rule, the numbers it compared and the state before it, as
plain data that outlives the objects from which it was read.

Units are in the names of the numbers, as everywhere. `None` stands for "never"
or "unknown".
"""

from dataclasses import dataclass
from typing import NamedTuple

from syncline.model.ids import BrokerEpoch, BrokerId, Offset
from syncline.model.immutable import Immutable

Scalar = int | str | bool | None


class FollowerView(NamedTuple):
    """What the leader knew of one follower just before a decision."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch | None
    log_end: Offset
    previous_log_end: Offset
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    is_counted: bool

    def as_json(self) -> dict[str, Scalar]:
        """Return the view as JSON scalars."""
        return {
            "broker_id": self.broker_id,
            "broker_epoch": self.broker_epoch,
            "log_end": self.log_end,
            "previous_log_end": self.previous_log_end,
            "last_fetch_ms": self.last_fetch_ms,
            "last_caught_up_ms": self.last_caught_up_ms,
            "is_counted": self.is_counted,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence(Immutable):
    """The rule that decided, the numbers it compared, and the followers as they stood."""

    rule: str
    numbers: tuple[tuple[str, Scalar], ...] = ()
    followers: tuple[FollowerView, ...] = ()

    def __getitem__(self, name: str) -> Scalar:
        return dict(self.numbers)[name]

    def as_json(self) -> dict[str, str | dict[str, Scalar] | list[dict[str, Scalar]]]:
        """Return the evidence as JSON, ready to be a journal event's payload."""
        return {
            "rule": self.rule,
            "numbers": dict(self.numbers),
            "followers": [follower.as_json() for follower in self.followers],
        }
