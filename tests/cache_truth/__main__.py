"""`python -m tests.cache_truth`: measured hits of a broker's page cache beside those that its own counts predict.

A broker writes and serves more than its memory holds, at five sizes of two kinds:

- budget: `page.cache.leader.budget.bytes` gives pages back, so the limit is the broker's own;
- group, only on request: a control group (version 1) limits its memory, so the kernel decides what goes. It keeps pages
  that were read twice, here those of the readers who catch up, and had up to 13 points fewer hits.

Each line is one run. It ends with 1 if a prediction is off by more than five points.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from syncline.lag_report.agreement import AGREED_POINTS, Agreement, agreements
from syncline.lag_report.answers import facts_of
from syncline.local.control import controls
from syncline.reassign.amounts import size_words
from tests.cache_truth.workload import play
from tests.cluster import LocalCluster, cluster
from tests.patience import eventually
from tests.saying import say

MB: Final = 1 << 20
SIZES: Final = (32 * MB, 48 * MB, 64 * MB, 96 * MB, 128 * MB)
# What a broker's own memory may grow by, once it is in a group of its own.
OWN_BYTES: Final = 24 * MB
GROUPS: Final = Path("/sys/fs/cgroup/memory")
BROKER: Final = 1
_ASK_S: Final = 10.0


class Run(NamedTuple):
    """One size of one kind."""

    kind: str
    size_bytes: int


class NotPermitted(Exception):
    """The machine does not let us limit a process's memory; the message says why."""


def main() -> int:
    """Return 1 if the model is wrong anywhere."""
    parser = argparse.ArgumentParser(prog="python -m tests.cache_truth", description=__doc__)
    parser.add_argument("--kind", choices=("budget", "group"), action="append", help="this kind (default: budget)")
    parser.add_argument("--mb", type=int, action="append", help="only this size, in MiB")
    options = parser.parse_args()
    sizes = [each * MB for each in options.mb] if options.mb else SIZES
    say("KIND    MEMORY     READ       MEASURED  PREDICTED  POINTS  SECONDS")
    is_wrong = False
    for kind in options.kind or ("budget",):
        for size_bytes in sizes:
            began_s = time.monotonic()
            try:
                found = measure(Run(kind, size_bytes))
            except NotPermitted as reason:
                say(f"{kind}: left out, {reason}")
                break
            is_off = abs(found.points) > AGREED_POINTS
            is_wrong |= is_off
            say(
                f"{kind:<6}  {size_words(size_bytes):<9}  {size_words(found.read_bytes):<9}  "
                f"{100 * found.measured:7.1f} %  {100 * found.predicted:7.1f} %  {found.points:+6.1f}  "
                f"{time.monotonic() - began_s:7.1f}{'  OFF' if is_off else ''}"
            )
    return int(is_wrong)


def measure(run: Run) -> Agreement:
    """Return what was measured and predicted in one run."""
    budget_bytes = run.size_bytes if run.kind == "budget" else -1
    configs = {"page.cache.leader.budget.bytes": str(budget_bytes), "journal.enable": "false"}
    with cluster(1, configs) as started, limited(started, run) as memory_bytes:
        play("127.0.0.1", started.running.client_ports[BROKER])
        answer: dict[str, Any] = controls(started.directory)[BROKER].call("cache.show", timeout_s=_ASK_S)
        facts = facts_of(BROKER, answer, memory_bytes())
        (found,) = agreements([(run.kind, facts)])
        return found


@contextlib.contextmanager
def limited(started: LocalCluster, run: Run) -> Iterator[Any]:
    """Limit the memory of a broker; what this gives tells how much of it pages of files had."""
    if run.kind == "budget":
        # The machine has more than enough: only what the broker itself gives back is gone.
        yield lambda: 1 << 50
        return
    group = GROUPS / f"syncline-cache-truth-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(run.size_bytes + OWN_BYTES))
        (group / "cgroup.procs").write_text(str(started.pids[BROKER]))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise NotPermitted(f"no control group can be made in {GROUPS}: {error.strerror}") from None
    try:
        yield lambda: None
    finally:
        started.stop()
        eventually(lambda: _is_removed(group), bool, within_s=10)


def _is_removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


if __name__ == "__main__":
    sys.exit(main())
