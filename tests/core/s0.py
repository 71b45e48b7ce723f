"""The common setting of the scenario catalogue, S0.

Partition t-0, brokers 1, 2, 3 registered and active, AR = ISR = [1,2,3], leader 1 in leader epoch 5
(start offset 0), partition epoch 20, min ISR 1, `time` mode with a window of 10 000 ms. Proposals are
confirmed at once unless `confirms` is false.
"""

from collections.abc import Sequence

from syncline.core.replication.effects import (
    Effect,
    Effects,
    HighWatermarkAdvanced,
    IsrAnswer,
    IsrChange,
    IsrCommitted,
    IsrRefused,
    ProposeIsr,
)
from syncline.core.replication.follower_state import NEVER_MS
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import LagPolicy, TimeLag
from syncline.core.replication.leader import LeaderPartition, PartitionSettings
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.tick_index import TickIndex
from syncline.model.errors import ErrorCode

LAG_MS = 10_000


def standings(*broker_ids: int, fenced: Sequence[int] = ()) -> dict[int, BrokerStanding]:
    """Brokers whose broker epoch is ten times their id."""
    return {broker_id: BrokerStanding(10 * broker_id, is_fenced=broker_id in fenced) for broker_id in broker_ids}


class S0:
    """A leader's partition in the common setting, driven in the notation of the catalogue."""

    def __init__(
        self,
        *,
        replicas: Sequence[int] = (1, 2, 3),
        isr: Sequence[int] | None = None,
        leader: int = 1,
        log_end: int = 0,
        high_watermark: int = 0,
        epoch_start: int = 0,
        min_isr: int = 1,
        gate: bool = True,
        lag_ms: int = LAG_MS,
        policy: LagPolicy | None = None,
        fenced: Sequence[int] = (),
        confirms: bool = True,
        now: int = 0,
        slow_reads: SlowReadRules | None = None,
        ticks: TickIndex | None = None,
    ) -> None:
        self.brokers = KnownBrokers(standings(*sorted({1, 2, 3, 4, *replicas}), fenced=fenced))
        self.confirms = confirms
        self.effects: list[Effect] = []
        self.sent: list[ProposeIsr] = []
        self.partition = LeaderPartition(
            leader,
            replicas=replicas,
            isr=replicas if isr is None else isr,
            leader_epoch=5,
            partition_epoch=20,
            epoch_start_offset=epoch_start,
            log_end=log_end,
            high_watermark=high_watermark,
            settings=PartitionSettings(policy or TimeLag(lag_ms), min_isr, gate, slow_reads),
            brokers=self.brokers,
            now_ms=now,
            ticks=ticks,
        )

    def f(
        self, broker: int, offset: int, at: int, *, captured: int | None = None, broker_epoch: int | None = None
    ) -> Effects:
        """Let follower `broker` fetch `offset`, taken up at `at`."""
        partition = self.partition
        log_end = partition.log_end if captured is None else captured
        incarnation = 10 * broker if broker_epoch is None else broker_epoch
        return self.note(
            partition.follower_fetched(broker, offset, 0, log_end, incarnation, partition.leader_epoch, at), at
        )

    def append(self, log_end: int, at: int) -> Effects:
        """Append records up to `log_end`."""
        return self.note(self.partition.appended(log_end, at), at)

    def tick(self, at: int) -> Effects:
        """Run the ISR expiration task."""
        return self.note(self.partition.tick(at), at)

    def trigger(self, at: int) -> Effects:
        """Try to move the watermark."""
        return self.note(self.partition.advance_high_watermark(at), at)

    def metadata(
        self,
        isr: Sequence[int],
        *,
        at: int,
        leader_epoch: int = 5,
        partition_epoch: int = 21,
        replicas: Sequence[int] | None = None,
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
    ) -> Effects:
        """Deliver a partition record."""
        return self.note(
            self.partition.metadata_changed(
                replicas=self.partition.in_sync.replicas if replicas is None else replicas,
                adding=adding,
                removing=removing,
                isr=isr,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                now_ms=at,
            ),
            at,
        )

    def answer(
        self,
        proposal: ProposeIsr,
        at: int = 0,
        *,
        error: ErrorCode = ErrorCode.NONE,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        isr: Sequence[int] | None = None,
    ) -> Effects:
        """Let the controller answer; success with the next partition epoch unless said otherwise."""
        answer = IsrAnswer(
            error,
            self.partition.leader_epoch if leader_epoch is None else leader_epoch,
            proposal.partition_epoch + 1 if partition_epoch is None else partition_epoch,
            proposal.broker_ids if isr is None else tuple(isr),
        )
        return self.note(self.partition.alter_partition_answered(proposal, answer, at), at)

    def note(self, effects: Effects, at: int) -> Effects:
        """Record effects, and confirm proposals if the setting does."""
        self.partition.check_invariants()
        self.effects.extend(effects)
        for effect in effects:
            if isinstance(effect, ProposeIsr):
                self.sent.append(effect)
                if self.confirms:
                    self.answer(effect, at)
        return effects

    def put(self, broker: int, log_end: int, previous: int, fetched: int | None, caught_up: int | None) -> None:
        """Set what the leader knows of a follower."""
        follower = self.partition.in_sync.by_id[broker]
        follower.log_end = log_end
        follower.previous_log_end = previous
        follower.last_fetch_ms = NEVER_MS if fetched is None else fetched
        follower.last_caught_up_ms = NEVER_MS if caught_up is None else caught_up
        follower.log_end_update_ms = follower.last_fetch_ms
        follower.broker_epoch = 10 * broker

    def state(self, broker: int) -> tuple[int, int, int | None, int | None]:
        """Return leo, prevLeo, lastFetch and lastCaughtUp of a follower; None stands for never."""
        view = self.partition.in_sync.by_id[broker].view()
        return view.log_end, view.previous_log_end, view.last_fetch_ms, view.last_caught_up_ms

    @property
    def hw(self) -> int:
        """The high watermark."""
        return self.partition.high_watermark

    @property
    def isr(self) -> list[int]:
        """The committed ISR."""
        return list(self.partition.isr)

    @property
    def maximal(self) -> list[int]:
        """The maximal ISR."""
        return sorted(self.partition.in_sync.maximal)

    @property
    def requested(self) -> list[list[int]]:
        """The ISRs that were proposed so far."""
        return [list(proposal.broker_ids) for proposal in self.sent]

    def meter(self, kind: IsrChange) -> int:
        """Return how many changes of `kind` were confirmed."""
        return sum(isinstance(effect, IsrCommitted) and effect.kind is kind for effect in self.effects)

    @property
    def failed_updates(self) -> int:
        """The meter FailedIsrUpdatesPerSec."""
        return sum(isinstance(effect, IsrRefused) for effect in self.effects)

    @property
    def marks(self) -> list[int]:
        """The watermarks that were announced."""
        return [effect.high_watermark for effect in self.effects if isinstance(effect, HighWatermarkAdvanced)]
