"""Replicas in memory: real leader and follower machines over a log that is a list.

A record is (leader epoch, value). Nothing is simulated but the log and the wire; every decision is the core's.
"""

from typing import NamedTuple

from syncline.core.replication import truncation, watermark
from syncline.core.replication.effects import Effects
from syncline.core.replication.follower import (
    AskLeaderEnd,
    AskLeaderStart,
    FetchAsk,
    FollowerEffects,
    FollowerPartition,
    FollowerPhase,
    RestartLog,
    TruncateLog,
)
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.lag_policy import TimeLag
from syncline.core.replication.leader import LeaderPartition, PartitionSettings
from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.core.replication.truncation import TruncationMode
from syncline.model.errors import ErrorCode

BACKOFF_MS = 1000


class MemoryLog:
    """Records from `log_start` on, with their epoch cache."""

    def __init__(self, epochs: str = "", *, log_start: int = 0) -> None:
        """Begin with one record per epoch named in `epochs`, for example "0,2,4"."""
        self.log_start = log_start
        self.records: list[tuple[int, str]] = []
        self.epochs = EpochCache()
        for epoch in filter(None, epochs.split(",")):
            self.append(int(epoch), f"v{epoch}")

    @property
    def log_end(self) -> int:
        """Where the next record goes."""
        return self.log_start + len(self.records)

    def append(self, epoch: int, value: str) -> None:
        """Append one record."""
        self.epochs.assign(epoch, self.log_end)
        self.records.append((epoch, value))

    def read(self, offset: int, count: int) -> list[tuple[int, str]]:
        """Return up to `count` records from `offset` on."""
        return self.records[offset - self.log_start :][:count]

    def truncate(self, offset: int) -> None:
        """Cut everything from `offset` on."""
        del self.records[max(0, offset - self.log_start) :]
        self.epochs.truncate_from_end(self.log_end)

    def restart_at(self, log_start: int) -> None:
        """Drop everything."""
        self.records.clear()
        self.log_start = log_start
        self.epochs.clear()

    @property
    def epoch_string(self) -> str:
        """The epochs of all records, as the constructor takes them."""
        return ",".join(str(epoch) for epoch, _ in self.records)

    @property
    def values(self) -> list[str]:
        """The values of all records."""
        return [value for _, value in self.records]


class FetchAnswer(NamedTuple):
    """A leader's answer to one partition."""

    error: ErrorCode = ErrorCode.NONE
    diverging: EpochEnd | None = None
    records: tuple[tuple[int, str], ...] = ()
    high_watermark: int = -1
    log_start: int = -1


class Replica:
    """One broker's replica of the partition."""

    def __init__(
        self,
        broker_id: int,
        log: MemoryLog | None = None,
        *,
        mark: int = 0,
        mode: TruncationMode = TruncationMode.EPOCH_FETCH,
    ) -> None:
        self.broker_id = broker_id
        self.log = log or MemoryLog()
        self.mark = mark
        self.mode = mode
        self.leader: LeaderPartition | None = None
        self.follower: FollowerPartition | None = None
        self.truncated_to: list[int] = []
        self.effects: list[object] = []

    @property
    def hw(self) -> int:
        """The replica's own watermark."""
        return self.mark if self.leader is None else self.leader.high_watermark

    def lead(
        self,
        leader_epoch: int,
        isr: tuple[int, ...],
        *,
        brokers: KnownBrokers,
        replicas: tuple[int, ...] = (1, 2),
        partition_epoch: int = 0,
        now: int = 0,
        min_isr: int = 1,
    ) -> Effects:
        """Become the leader."""
        self.follower = None
        self.log.epochs.assign(leader_epoch, self.log.log_end)
        self.leader = LeaderPartition(
            self.broker_id,
            replicas=replicas,
            isr=isr,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            epoch_start_offset=self.log.log_end,
            log_end=self.log.log_end,
            high_watermark=self.mark,
            settings=PartitionSettings(TimeLag(10_000), min_isr),
            brokers=brokers,
            now_ms=now,
        )
        return self.leader.advance_high_watermark(now)

    def write(self, value: str, now: int = 0) -> Effects:
        """Append one record as the leader."""
        assert self.leader is not None
        self.log.append(self.leader.leader_epoch, value)
        return self.leader.appended(self.log.log_end, now)

    def follow(self, leader_epoch: int) -> None:
        """Become a follower, or learn of a newer leader."""
        self.stop_leading()
        if self.follower is None:
            self.follower = FollowerPartition(BACKOFF_MS, mode=self.mode)
        self.perform(
            self.follower.follow(
                leader_epoch,
                log_start=self.log.log_start,
                log_end=self.log.log_end,
                high_watermark=self.mark,
                latest_epoch=self.log.epochs.latest_epoch,
            )
        )

    def stop_leading(self) -> None:
        """Keep the watermark, drop the rest."""
        if self.leader is not None:
            self.mark = self.leader.high_watermark
            self.leader = None

    def restart(self, *, checkpoint: int | None = None) -> None:
        """Stop and start again with the log as it is."""
        self.stop_leading()
        self.follower = None
        self.mark = watermark.follower_mark(
            self.mark if checkpoint is None else checkpoint, self.log.log_start, self.log.log_end
        )

    def perform(self, effects: FollowerEffects) -> None:
        """Perform the follower's effects on the log."""
        assert self.follower is not None
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, TruncateLog):
                self.log.truncate(effect.offset)
                self.truncated_to.append(effect.offset)
                self.mark = min(self.mark, self.log.log_end)
                self.follower.truncated(self.log.log_end, self.log.epochs.latest_epoch, self.log.log_start)
            elif isinstance(effect, RestartLog):
                self.log.restart_at(effect.start_offset)
                self.mark = effect.start_offset
                self.follower.truncated(self.log.log_end, self.log.epochs.latest_epoch, self.log.log_start)

    def serve(
        self, replica_id: int, ask: FetchAsk, now: int = 0, *, broker_epoch: int = -1, count: int = 1
    ) -> tuple[FetchAnswer, Effects]:
        """Answer a follower's fetch as its leader."""
        leader = self.leader
        if leader is None:
            return FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER), ()
        error = leader.check_fetch(replica_id, ask.leader_epoch, broker_epoch)
        if error:
            return FetchAnswer(error), ()
        captured, shown = leader.log_end, leader.high_watermark
        found = truncation.find_divergence(
            self.log.epochs, ask.last_fetched_epoch, ask.fetch_offset, self.log.log_start, captured
        )
        if isinstance(found, EpochEnd):
            return FetchAnswer(diverging=found, high_watermark=shown, log_start=self.log.log_start), ()
        if found is not None:
            return FetchAnswer(found), ()
        records = tuple(self.log.read(ask.fetch_offset, count))
        effects = leader.follower_fetched(
            replica_id, ask.fetch_offset, ask.log_start, captured, broker_epoch, leader.leader_epoch, now
        )
        return FetchAnswer(records=records, high_watermark=shown, log_start=self.log.log_start), effects

    def take(self, sent: FetchAsk, answer: FetchAnswer, now: int = 0) -> None:
        """Process an answer as the follower; one that no longer fits is dropped."""
        follower = self.follower
        if follower is None or not follower.accepts(sent):
            return
        if answer.error:
            self.perform(follower.refused(sent, answer.error, now))
        elif answer.diverging is not None:
            self.perform(follower.diverged(answer.diverging, self.log.epochs, self.log.log_end, self.mark))
        else:
            for epoch, value in answer.records:
                self.log.append(epoch, value)
            self.mark = watermark.follower_mark(answer.high_watermark, self.log.log_start, self.log.log_end)
            follower.appended(
                log_end=self.log.log_end,
                log_start=self.log.log_start,
                latest_epoch=self.log.epochs.latest_epoch,
                leader_high_watermark=answer.high_watermark,
            )

    def fetch_from(
        self, leader: "Replica", now: int = 0, *, count: int = 1, is_answer_lost: bool = False
    ) -> FetchAnswer:
        """Run one fetch, after whatever must be compared before it, and what follows from OFFSET_OUT_OF_RANGE."""
        assert self.follower is not None
        while self.follower.has_question(now):
            self.compare_with(leader)
        sent = self.follower.ask()
        answer, _ = leader.serve(self.broker_id, sent, now, count=count)
        if not is_answer_lost:
            self.take(sent, answer, now)
            self.resolve_out_of_range(leader, now)
        return answer

    def compare_with(self, leader: "Replica") -> EpochEnd:
        """Ask the leader where the last epoch of this log ends in its own, and do what follows."""
        follower = self.follower
        assert follower is not None
        assert leader.leader is not None
        asked = follower.question()
        assert asked.leader_epoch == leader.leader.leader_epoch
        answer = leader.log.epochs.end_offset_for(asked.epoch, leader.log.log_end)
        assert follower.fits(asked)
        self.perform(follower.compared(answer, self.log.epochs, self.log.log_end, self.mark))
        return answer

    def resolve_out_of_range(self, leader: "Replica", now: int = 0) -> None:
        """Ask for the leader's end and start, if that is what the follower waits for."""
        follower = self.follower
        if follower is None or follower.phase is not FollowerPhase.ASKING:
            return
        assert isinstance(self.effects[-1], AskLeaderEnd)
        effects = follower.leader_end_known(leader.log.log_end, log_end=self.log.log_end, high_watermark=self.mark)
        if effects == (AskLeaderStart(),):
            effects = follower.leader_start_known(leader.log.log_start, log_end=self.log.log_end, now_ms=now)
        self.perform(effects)

    def catch_up(self, leader: "Replica") -> None:
        """Fetch until nothing changes any more."""
        for _ in range(100):
            before = (self.log.values, self.log.log_start, self.hw, leader.hw)
            self.fetch_from(leader)
            if before == (self.log.values, self.log.log_start, self.hw, leader.hw):
                return
        raise AssertionError("the follower never settles")
