"""Asks the state machines of every living broker for their invariants, while a run goes on.

One hard idea: after each instant only what the brokers' probes named is checked,
and of that only what one step can break. Everything else (all index entries,
all segments, checkpoints) is checked every `SWEEP_NS` and before a broker dies.
So a run notices a broken invariant close to its cause, and costs little more.

Nothing here writes, reads a file, or draws a random number: a run with checks
is the same run.
"""

import traceback
from collections.abc import Callable, Mapping
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.virtual.host import Host
from syncline.virtual.links import MS

SWEEP_NS: Final = 500 * MS


class Invariants:
    """The invariants of one run's brokers, and which of them are due."""

    def __init__(self, hosts: Mapping[int, Host], now_ns: Callable[[], int], failures: list[str]) -> None:
        self._hosts = hosts
        self._now_ns = now_ns
        self._failures = failures
        self._touched: dict[tuple[int, TopicPartition], None] = {}
        self._swept_ns = 0
        self.checks = 0

    def touched(self, broker_id: int, key: TopicPartition) -> None:
        """Look at a replica when this instant is over."""
        self._touched[broker_id, key] = None

    def instant_is_over(self) -> None:
        """Check the replicas that have changed, and now and then everything."""
        now_ns = self._now_ns()
        if now_ns - self._swept_ns >= SWEEP_NS:
            self._swept_ns = now_ns
            self._touched.clear()
            for host in self._hosts.values():
                self.check(host)
        elif self._touched:
            touched, self._touched = self._touched, {}
            for broker_id, key in touched:
                self._assert(lambda: _check_step(self._hosts[broker_id], key))  # noqa: B023 - called at once

    def check(self, host: Host) -> None:
        """Check everything that lives on a host."""
        self._assert(lambda: _check_everything(host))

    def _assert(self, check: Callable[[], None]) -> None:
        self.checks += 1
        try:
            check()
        except AssertionError as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"invariant: {error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
            if text not in self._failures:
                self._failures.append(text)


def _check_step(host: Host, key: TopicPartition) -> None:
    """Assert what one step of a replica could break."""
    partition = host.partition(key)
    if partition is None:
        return
    partition.log.check_newest()
    partition.check_invariants()
    if partition.leader is not None:
        partition.leader.check_invariants()


def _check_everything(host: Host) -> None:
    broker = getattr(host.node, "broker", None)
    if broker is None or not host.is_up:
        return
    broker.logs.check_invariants()
    broker.check_invariants()
    for partition in broker.partitions.values():
        if partition.leader is not None:
            partition.leader.check_invariants()
