"""How much memory this machine leaves for the page cache: what is free, and what pages of files take already.

A control group bounds it, too: its limit, less what its processes and the kernel take in it that is no page of a file.
Both versions of control groups are read; a container sees its own as the root of the mount.
Units: bytes. Source: proc(5), cgroups(7); the kernel's memory controller.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MEMINFO: Final = Path("/proc/meminfo")
_GROUPS: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
# What is no page of a file, by version: names in memory.stat; and in version 1 a file of its own.
_TAKEN: Final = {"anon", "kernel", "rss"}
_TAKEN_BY_KERNEL: Final = "memory.kmem.usage_in_bytes"


def cache_memory_bytes(meminfo: Path = _MEMINFO, groups: Path = _GROUPS, mount: Path = _MOUNT) -> int:
    """Return it, -1 where nobody tells."""
    found = [_available_bytes(meminfo), *map(_left_in, _directories(groups, mount))]
    return min((each for each in found if each >= 0), default=-1)


def _available_bytes(meminfo: Path) -> int:
    for line in _lines(meminfo):
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return -1


def _directories(groups: Path, mount: Path) -> Iterator[Path]:
    """Yield where the memory of this process's groups is described."""
    for line in _lines(groups):
        _, controllers, path = line.split(":", 2)
        if controllers in {"", "memory"}:
            root = mount / controllers
            inside = root / path.strip("/")
            yield inside if inside.is_dir() else root


def _left_in(directory: Path) -> int:
    for name in ("memory.max", "memory.limit_in_bytes"):
        for limit in _lines(directory / name):
            if limit.isdecimal():
                taken = [int(size) for key, size in map(str.split, _lines(directory / "memory.stat")) if key in _TAKEN]
                kernel = [int(size) for size in _lines(directory / _TAKEN_BY_KERNEL)]
                return max(0, int(limit) - sum(taken) - sum(kernel))
    return -1


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
