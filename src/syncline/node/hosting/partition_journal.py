"""Journal events about partitions: changes of the ISR, stalled watermarks, truncations.

An event carries the numbers that the rule compared. Their times are of this broker's monotonic clock; `noted_ms` is
that clock's time of the event, which relates them to the event's Unix time.
"""

import logging
from collections.abc import Callable
from typing import Any

from syncline.core.replication.effects import (
    IsrChange,
    IsrCommitted,
    IsrRefused,
    ProposeIsr,
    WatermarkHeld,
    WatermarkResumed,
)
from syncline.core.replication.evidence import Evidence
from syncline.model import events
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, Offset, TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.observing.follower_watch import FollowerWatch
from syncline.node.partitions.partition import Partition

log = logging.getLogger("syncline.node")


class PartitionJournal:
    """Reports what happens to the partitions of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        configs: LiveConfigs,
        counters: Counters,
        followers: FollowerWatch,
        disk_watch: DiskWatch,
        note: Callable[[events.Event], None],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._configs = configs
        self._counters = counters
        self._followers = followers
        self._disk_watch = disk_watch
        self._note = note

    def isr_committed(self, partition: Partition, effect: IsrCommitted) -> None:
        """Report a change of the ISR that this leader proposed."""
        kind = effect.kind
        if kind is IsrChange.METADATA:
            if effect.evidence.rule == "metadata":
                # The controller decided this and journals it.
                return
            kind = IsrChange.SHRINK if len(effect.after) < len(effect.before) else IsrChange.EXPAND
        if kind is IsrChange.RELINQUISH:
            # An older controller ignored the request to relinquish: nothing has changed.
            return
        if kind is IsrChange.SHRINK:
            self._counters.isr_shrinks += 1
        else:
            self._counters.isr_expands += 1
        self._note_isr(partition, kind, "committed", effect.before, effect.after, effect.evidence)

    def isr_refused(self, partition: Partition, effect: IsrRefused) -> None:
        """Report a proposal that the controller refused."""
        if effect.proposal.kind is IsrChange.RELINQUISH and effect.error is ErrorCode.NEW_LEADER_ELECTED:
            return
        self._counters.failed_isr_updates += 1
        leader = partition.leader
        before = leader.isr if leader is not None else ()
        self._note_isr(partition, effect.proposal.kind, "refused", before, effect.proposal.broker_ids, effect.evidence)

    def relinquished(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Count and report that this leader relinquished the partition because it was too slow (KIP-501)."""
        self._counters.relinquished += 1
        members = proposal.broker_ids
        self._note_isr(partition, IsrChange.RELINQUISH, "committed", members, members, proposal.evidence)

    def _note_isr(
        self,
        partition: Partition,
        kind: IsrChange,
        outcome: str,
        before: tuple[BrokerId, ...],
        after: tuple[BrokerId, ...],
        evidence: Evidence,
    ) -> None:
        leader = partition.leader
        gone = sorted(set(before) - set(after)) if kind is IsrChange.SHRINK else ()
        log.info("%s: ISR %s %s: %s -> %s (%s)", partition.key, kind.value, outcome, before, after, evidence.rule)
        self._note(
            events.IsrChange(
                ts_ms=self._clock.wall_ms(),
                broker=self._broker_id,
                topic=partition.key.topic,
                partition=partition.key.partition,
                leader_epoch=partition.leader_epoch,
                partition_epoch=leader.partition_epoch if leader is not None else -1,  # type: ignore[arg-type]
                change=kind.value,  # type: ignore[arg-type]
                outcome=outcome,  # type: ignore[arg-type]
                before=tuple(sorted(before)),
                after=tuple(sorted(after)),
                rule=evidence.rule,
                evidence={
                    **_numbers(evidence, self._clock.mono_ms()),
                    **({"asked": [self._last_fetch(partition.key, each) for each in gone]} if gone else {}),
                },
            )
        )

    def _last_fetch(self, key: TopicPartition, replica: BrokerId) -> dict[str, events.Json]:
        """Return when a follower that leaves the ISR last fetched, and what its answer waits for."""
        asked_ms, is_answer_pending = self._followers.last_fetch(replica)
        return {
            "broker_id": replica,
            "asked_ms": asked_ms,
            "is_owed": is_answer_pending,
            "reading_since_ms": self._disk_watch.read_of(key, replica),
            "pending_fetches_protect": self._configs.broker.follower_fetch_pending_reads_insync_enable,
        }

    def watermark_stalled(self, partition: Partition, effect: WatermarkHeld | WatermarkResumed) -> None:
        """Report that a high watermark is stalled, or advances again."""
        log.info("%s: %s", partition.key, effect)
        now_ms, wall_ms = self._clock.mono_ms(), self._clock.wall_ms()
        held: dict[str, Any]
        if isinstance(effect, WatermarkHeld):
            lasted_ms = now_ms - effect.since_ms
            held = {"phase": "held", "rule": effect.evidence.rule, "evidence": _numbers(effect.evidence, now_ms)}
        else:
            lasted_ms = effect.held_ms
            held = {"phase": "resumed", "rule": "", "evidence": {}}
        self._note(
            events.Watermark(
                ts_ms=wall_ms,
                broker=self._broker_id,
                topic=partition.key.topic,
                partition=partition.key.partition,
                leader_epoch=partition.leader_epoch,
                high_watermark=effect.high_watermark,
                log_end=partition.log.log_end,
                since_ms=wall_ms - lasted_ms,
                lasted_ms=lasted_ms,
                **held,
            )
        )

    def truncated(self, partition: Partition, leader_id: int, log_end_before: Offset, evidence: Evidence) -> None:
        """Report a truncation that a leader's history required, if it cut anything.

        A follower that led and wrote nothing has a last epoch without records, which its leader does not know: the cut
        removes this epoch alone.
        """
        log_end = partition.log.log_end
        if log_end == log_end_before:
            return
        mark = dict(evidence.numbers).get("high_watermark")
        if isinstance(mark, int) and log_end < mark:
            log.warning(
                "%s: truncated %s -> %s, below its high watermark %s (%s): records committed there are not "
                "in the log of leader %s. An unclean election, or log.truncation.mode high-watermark, can "
                "cause that",
                *(partition.key, log_end_before, log_end, mark, evidence.rule, leader_id),
            )
        else:
            log.info("%s: truncated %s -> %s (%s)", partition.key, log_end_before, log_end, evidence.rule)
        self._note(
            events.Truncation(
                ts_ms=self._clock.wall_ms(),
                broker=self._broker_id,
                topic=partition.key.topic,
                partition=partition.key.partition,
                leader=BrokerId(leader_id),
                leader_epoch=partition.leader_epoch,
                log_end_before=log_end_before,
                log_end_after=log_end,
                rule=evidence.rule,
                evidence=_numbers(evidence, self._clock.mono_ms()),
            )
        )


def _numbers(evidence: Evidence, now_ms: int) -> dict[str, events.Json]:
    """Return the numbers that a rule compared, and the followers that it considered."""
    followers: list[events.Json] = [follower.as_json() for follower in evidence.followers]
    return {**dict(evidence.numbers), "noted_ms": now_ms, "followers": followers}
