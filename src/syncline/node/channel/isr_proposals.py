"""The ISR proposals of a broker's leaders, on their way to the controller and back.

Proposals of one turn of the loop share an AlterPartition request; one request is in flight at a time. A proposal is
sent again, to the controller of that moment, until it is answered (KIP-497): the controller may thus receive it twice,
and finds it done the second time.

Invariant: each proposal is answered exactly once, unless the broker stops before.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from syncline.core.replication.effects import IsrAnswer, IsrChange, ProposeIsr, RefusalOutcome
from syncline.core.replication.isr import outcome_of
from syncline.core.replication.proposals import ProposalQueue
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.metadata import Recovery
from syncline.node.channel.link import ControllerLink
from syncline.node.clock import Clock
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type, response_type
from syncline.wire.entities import build

log = logging.getLogger("syncline.node")

_VERSION: Final = 3

_PartitionKey = tuple[UUID, int]
_Proposed = tuple[ProposeIsr, Callable[[IsrAnswer], None]]


class IsrProposals:
    """The unanswered proposals of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, link: ControllerLink) -> None:
        self._loop = loop
        self._clock = clock
        self._link = link
        self._queue: ProposalQueue[_PartitionKey, _Proposed] = ProposalQueue()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def propose(
        self, topic_id: UUID, partition: int, proposal: ProposeIsr, answered: Callable[[IsrAnswer], None]
    ) -> None:
        """Propose an ISR; `answered` is called once, unless the broker stops before."""
        if not self._queue.submit((topic_id, partition), (proposal, answered)):
            self._loop.call_soon(answered, IsrAnswer(ErrorCode.OPERATION_NOT_ATTEMPTED))
            return
        self._send_in(0)

    def send(self) -> None:
        """Send the waiting proposals, if the broker is registered and no other request is in flight."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        link, queue = self._link, self._queue
        control = link.control
        if control is None:
            return
        now_ms = self._clock.mono_ms()
        batch = queue.next_batch(now_ms)
        if not batch:
            if len(queue) and now_ms < queue.retry_at_ms:
                self._send_in((queue.retry_at_ms - now_ms) / 1_000)
            return
        sent = dict(batch)

        def on_answer(frame: memoryview | None, position: int) -> None:
            if self._is_stopped:
                return
            if frame is None:
                queue.failed(self._clock.mono_ms())
                self._send_in(0)
            else:
                self._answered(sent, decode_response(ApiKey.ALTER_PARTITION, _VERSION, frame, position))

        proposals = {key: proposal for key, (proposal, _) in sent.items()}
        try:
            # The first of them imports the schemas of the request and of its answer.
            response_type(ApiKey.ALTER_PARTITION, _VERSION)
            body = encode_request(_alter_partition(link.broker_id, link.broker_epoch, proposals))
        except OSError as error:
            log.warning("cannot propose changes of in-sync sets now: %s", error)
            queue.failed(now_ms)
            self._send_in(0)
            return
        control.send(ApiKey.ALTER_PARTITION, _VERSION, (body,), on_answer)

    def check_invariants(self) -> None:
        """Assert what must hold between two events."""
        waits_for = (self._timer is not None, self._queue.is_in_flight, self._link.control is None, self._is_stopped)
        assert not len(self._queue) or any(waits_for), f"{len(self._queue)} proposals wait for nothing"

    def stop(self) -> None:
        """Send and answer nothing more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _send_in(self, delay_s: float) -> None:
        if self._timer is None and not self._is_stopped:
            self._timer = self._loop.call_later(delay_s, self.send)

    def _answered(self, sent: Mapping[_PartitionKey, _Proposed], reply: Any) -> None:
        queue = self._queue
        error = ErrorCode(int(reply.error_code))
        if error is not ErrorCode.NONE:
            queue.failed(self._clock.mono_ms())
            if error in {ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH}:
                # Find the controller again, and register again if necessary.
                self._link.close()
        else:
            answers = {key: answer for key, answer in _isr_answers(reply) if key in sent}
            queue.answered(answers)
            if any(_is_to_be_retried(answer.error) for answer in answers.values()):
                queue.pause(self._clock.mono_ms())
            for key, answer in answers.items():
                sent[key][1](answer)
        self._send_in(0)


def _is_to_be_retried(error: ErrorCode) -> bool:
    return error is not ErrorCode.NONE and outcome_of(error) is RefusalOutcome.RETRIED


def _alter_partition(
    broker_id: BrokerId, broker_epoch: BrokerEpoch, proposals: Mapping[_PartitionKey, ProposeIsr]
) -> Any:
    topics: dict[UUID, list[dict[str, Any]]] = {}
    for (topic_id, partition), proposal in proposals.items():
        topics.setdefault(topic_id, []).append(
            {
                "partition_index": partition,
                "leader_epoch": proposal.leader_epoch,
                "new_isr_with_epochs": [
                    {"broker_id": member.broker_id, "broker_epoch": member.broker_epoch} for member in proposal.isr
                ],
                "leader_recovery_state": int(Recovery.RECOVERED),
                "partition_epoch": proposal.partition_epoch,
                "relinquish": proposal.kind is IsrChange.RELINQUISH,
            }
        )
    return build(
        request_type(ApiKey.ALTER_PARTITION, _VERSION),
        {
            "broker_id": broker_id,
            "broker_epoch": broker_epoch,
            "topics": [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in topics.items()],
        },
    )


def _isr_answers(reply: Any) -> list[tuple[_PartitionKey, IsrAnswer]]:
    return [
        (
            (topic.topic_id, int(row.partition_index)),
            IsrAnswer(
                ErrorCode(int(row.error_code)),
                LeaderEpoch(int(row.leader_epoch)),
                PartitionEpoch(int(row.partition_epoch)),
                tuple(BrokerId(int(broker)) for broker in row.isr),
            ),
        )
        for topic in reply.topics
        for row in topic.partitions
    ]
