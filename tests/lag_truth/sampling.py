"""What the brokers say: one thread per group asks for its rows twice a second, whatever happens to the cluster."""

import threading
from pathlib import Path
from typing import Any, NamedTuple

from syncline.local.control import ControlError, controls
from syncline.local.layout import LocalClusterError
from tests.lag_truth.history import now_ms

PERIOD_S = 0.5
TIMEOUT_S = 5.0


class Sample(NamedTuple):
    """One row, and between which moments it was asked for and answered."""

    group: str
    asked_ms: float
    answered_ms: float
    row: dict[str, Any]


class Sampler:
    """Asks for one group until the run is over."""

    def __init__(self, directory: Path, group: str) -> None:
        self.samples: list[Sample] = []
        # Partitions that the coordinator got no answer for, and questions that nobody answered.
        self.unanswered = 0
        self.silent = 0
        self.is_over = threading.Event()
        self._directory = directory
        self._group = group
        self._coordinator = 0
        self.thread = threading.Thread(target=self._run, name=f"sampler-{group}", daemon=True)

    def _run(self) -> None:
        while not self.is_over.wait(PERIOD_S):
            self._ask()

    def _ask(self) -> None:
        try:
            brokers = controls(self._directory, timeout_s=TIMEOUT_S)
        except (LocalClusterError, OSError, ValueError):
            self.silent += 1
            return
        # The one that answered last is most likely still the coordinator.
        for broker_id in sorted(brokers, key=lambda each: each != self._coordinator):
            asked_ms = now_ms()
            try:
                answer = brokers[broker_id].call("lag.group", group=self._group, count=500)
            except ControlError:
                continue
            answered_ms = now_ms()
            if answer["standing"] == "NONE":
                self._coordinator = broker_id
                self.unanswered += len(answer["unanswered"])
                self.samples += [Sample(self._group, asked_ms, answered_ms, row) for row in answer["rows"]]
                return
        self.silent += 1
