"""Stopping a whole cluster: brokers report that they are ready, and the controller lets all stop at once.

A broker is ready when it appends nothing more and its followers have everything. When all unfenced brokers are ready,
one decision fences them all (`stop_together()` in `core/cluster/broker_lifecycle.py`): then no partition has a leader,
and each keeps its ISR. If one is not ready in time, all are refused and leave one by one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from syncline.core.cluster.broker_lifecycle import stop_together
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.node.controller.commits import Commits

# How long the brokers of a stopping cluster wait for each other before they leave one by one.
STOP_TOGETHER_S: Final = 2.0

StopAnswer = Callable[[ErrorCode], None]


class StopTogether:
    """The brokers that are ready to stop and wait for the others."""

    def __init__(self, loop: asyncio.AbstractEventLoop, commits: Commits) -> None:
        self._loop = loop
        self._commits = commits
        self._ready: dict[BrokerId, tuple[BrokerEpoch, StopAnswer]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, answer: StopAnswer) -> None:
        """Record that a broker is ready; `answer` is called when all are, or after the time-out."""
        self._ready[broker_id] = (broker_epoch, answer)
        if self._timer is None:
            self._timer = self._loop.call_later(STOP_TOGETHER_S, self.answer_all, ErrorCode.REQUEST_TIMED_OUT)
        self.stop_if_all_are_ready()

    def stop_if_all_are_ready(self) -> None:
        """Fence all brokers if every unfenced one is ready."""
        brokers = self._commits.tentative.brokers.values()
        serving = {each.broker_id: each.broker_epoch for each in brokers if not each.fenced}
        ready = {broker_id: broker_epoch for broker_id, (broker_epoch, _) in self._ready.items()}
        if not ready or any(ready.get(broker_id) != broker_epoch for broker_id, broker_epoch in serving.items()):
            return

        def answered(is_done: bool | None) -> None:
            self.answer_all(ErrorCode.NONE if is_done else ErrorCode.NOT_CONTROLLER)

        self._commits.decide(lambda image, _: stop_together(image), answered)

    def answer_all(self, error: ErrorCode) -> None:
        """Answer all waiting brokers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._ready = self._ready, {}
        for _, answer in waiting.values():
            answer(error)
