"""What a machine, and a control group, leave for the page cache."""

from pathlib import Path

import pytest

from syncline.storage.machine.cache_memory import cache_memory_bytes

MEMINFO = "MemTotal:       8000 kB\nMemFree:        100 kB\nMemAvailable:   5000 kB\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        pytest.param("", {}, 5_120_000, id="none"),
        pytest.param("0::/\n", {"memory.max": "max\n", "memory.stat": "anon 5\n"}, 5_120_000, id="no-limit"),
        pytest.param(
            "1:cpu:/x\n0::/x\n",
            {"x/memory.max": "4000000\n", "x/memory.stat": "anon 500000\nfile 7\nkernel 100000\n"},
            3_400_000,
            id="version-2",
        ),
        pytest.param(
            "4:memory:/a/b\n0::/\n",
            {
                "memory/a/b/memory.limit_in_bytes": "4000000\n",
                "memory/a/b/memory.stat": "cache 9\nrss 500000\ntotal_rss 600000\n",
                "memory/a/b/memory.kmem.usage_in_bytes": "200000\n",
            },
            3_300_000,
            id="version-1",
        ),
        pytest.param(
            "4:memory:/not/here\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 5_120_000, id="container"
        ),
        pytest.param("0::/\n", {"memory.max": "1000\n", "memory.stat": "anon 2000\n"}, 0, id="nothing-left"),
    ],
)
def test_memory_is_what_the_system_and_the_group_leave(
    tmp_path: Path, groups: str, files: dict[str, str], expected: int
) -> None:
    """Whichever is less."""
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert cache_memory_bytes(tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "mount") == expected


def test_memory_is_unknown_where_nobody_tells(tmp_path: Path) -> None:
    """As on systems without /proc."""
    assert cache_memory_bytes(tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "mount") == -1
