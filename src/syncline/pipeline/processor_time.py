"""CPU time of this process and of all running processes that it started, where the machine reports it.

Linux reports it in /proc, in ticks of 10 ms; elsewhere there is none.
"""

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def of_tree(root: int) -> float | None:
    """Return the seconds of a process and its descendants, ended ones included; `None` where none are reported."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            # The name of a command may hold anything, but the last parenthesis is the one after it.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    if root not in ticks:
        return None
    total = 0
    for pid, spent in ticks.items():
        above = pid
        while above != root and above in parents:
            above = parents[above]
        total += spent if above == root else 0
    return total / float(os.sysconf("SC_CLK_TCK"))
