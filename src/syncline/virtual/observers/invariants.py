"""Checks the whole state of running brokers, at intervals and before a broker dies.

One hard idea: a broker that runs with `NodeSpec.check_invariants` checks after
each step what that step can break. The expensive checks (every segment, every
index entry, the checkpoints) run here, every `SWEEP_NS` of a run. So a broken
invariant is found close to its cause, at little cost.

Nothing here writes, reads a file, or draws a random number: a run with sweeps
is the same run.
"""

import traceback
from collections.abc import Mapping
from typing import Final

from syncline.virtual.host import Host
from syncline.virtual.time.durations import MS

SWEEP_NS: Final = 500 * MS


class Invariants:
    """The sweeps over the brokers of one run."""

    def __init__(self, hosts: Mapping[int, Host], failures: list[str]) -> None:
        self._hosts = hosts
        self._failures = failures
        self._swept_ns = 0

    def instant_is_over(self, now_ns: int) -> None:
        """Check every broker if the last sweep was long enough ago."""
        if now_ns - self._swept_ns >= SWEEP_NS:
            self._swept_ns = now_ns
            for host in self._hosts.values():
                self.check(host)

    def check(self, host: Host) -> None:
        """Check the broker on a host; report a violation as a failure of the run."""
        try:
            _check(host)
        except AssertionError as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"invariant: {error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
            if text not in self._failures:
                self._failures.append(text)


def _check(host: Host) -> None:
    broker = getattr(host.node, "broker", None)
    if broker is not None and host.is_up:
        broker.logs.check_invariants()
        broker.check_invariants()
