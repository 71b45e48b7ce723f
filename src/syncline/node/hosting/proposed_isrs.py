"""Proposed ISRs: from a leader's decision to the controller's answer, which goes back to the leader.

Until the answer arrives, the leader reckons with both outcomes of a proposal (`core/replication/isr.py`).
"""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from syncline.core.replication.effects import IsrAnswer, IsrChange, ProposeIsr
from syncline.model.errors import ErrorCode
from syncline.node.clock import Clock
from syncline.node.hosting.partition_journal import PartitionJournal
from syncline.node.observing.observer import Observer
from syncline.node.partitions.partition import Partition


class TakesProposals(Protocol):
    """The channel to the controller."""

    def propose_isr(
        self, topic_id: UUID, partition: int, proposal: ProposeIsr, answered: Callable[[IsrAnswer], None], /
    ) -> None:
        """Propose an ISR; `answered` is called once, unless this broker stops before."""


class ProposedIsrs:
    """The ISRs that one broker has proposed."""

    def __init__(
        self,
        *,
        controller: TakesProposals,
        clock: Clock,
        observer: Observer,
        journal: PartitionJournal,
        settle: Callable[[], None],
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._observer = observer
        self._journal = journal
        self._settle = settle

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposed ISR to the controller."""
        self._observer.proposed(partition.key, proposal)

        def answered(answer: IsrAnswer) -> None:
            self._observer.proposal_answered(partition.key)
            if proposal.kind is IsrChange.RELINQUISH and answer.error is ErrorCode.NEW_LEADER_ELECTED:
                self._journal.relinquished(partition, proposal)
            leader = partition.leader
            if leader is None:
                return
            partition.perform(leader.alter_partition_answered(proposal, answer, self._clock.mono_ms()))
            self._settle()

        self._controller.propose_isr(partition.topic_id, partition.key.partition, proposal, answered)
