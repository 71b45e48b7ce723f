"""What the operating system reports of this process: time, memory, descriptors.

Each scrape reads them, from /proc where there is one; elsewhere the figures that
are not available are 0.
"""

import os
import resource
import time
from pathlib import Path

from syncline.node.metrics.scrape import ProcessFigures

STAT = Path("/proc/self/stat")
# Indexes of fields in /proc/self/stat, counted from the field after the name (proc(5)).
START_TIME, VIRTUAL_BYTES, RESIDENT_PAGES = 19, 20, 21


def process_figures() -> ProcessFigures:
    """Return the current figures."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    virtual_bytes, resident_bytes, started_s = _from_proc()
    return ProcessFigures(
        cpu_s=usage.ru_utime + usage.ru_stime,
        resident_bytes=resident_bytes,
        virtual_bytes=virtual_bytes,
        open_descriptors=_open_descriptors(),
        descriptors_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        started_s=started_s,
    )


def _from_proc() -> tuple[int, int, float]:
    """Return (virtual bytes, resident bytes, start in seconds since 1970)."""
    try:
        fields = STAT.read_text().rpartition(")")[2].split()
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[START_TIME]) / os.sysconf("SC_CLK_TCK")
        return (
            int(fields[VIRTUAL_BYTES]),
            int(fields[RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE"),
            round(time.time() - age_s, 2),
        )
    except (OSError, IndexError, ValueError, AttributeError):
        return 0, 0, 0.0


def _open_descriptors() -> int:
    try:
        # Since Linux 6.2 their number is the directory's size; a list of twenty thousand takes 10 ms.
        count = os.stat("/proc/self/fd").st_size  # noqa: PTH116 - a Path would cost as much again
        return count or len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 - one of them is the listing itself
    except OSError:
        return 0
