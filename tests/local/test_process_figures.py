"""A process's own figures, against those of psutil."""

import os
import time
from pathlib import Path

import psutil
import pytest

from syncline.local import process_figures
from syncline.local.process_figures import process_figures as figures


def test_figures_are_those_that_others_see() -> None:
    """Time, memory, descriptors and start of this very process."""
    seen = psutil.Process()
    own = figures()

    assert own.resident_bytes == pytest.approx(seen.memory_info().rss, rel=0.1)
    assert own.virtual_bytes == pytest.approx(seen.memory_info().vms, rel=0.1)
    # psutil counts the directory that it reads.
    assert own.open_descriptors == seen.num_fds() - 1
    assert own.started_s == pytest.approx(seen.create_time(), abs=1.5)
    assert own.descriptors_max == seen.rlimit(psutil.RLIMIT_NOFILE)[0]
    assert own.cpu_s == pytest.approx(sum(seen.cpu_times()[:2]), abs=0.2)


def test_figures_go_with_what_happens() -> None:
    """One more open file counts one more descriptor; work takes CPU time."""
    before = figures()
    read, write = os.pipe()
    until_s = time.process_time() + 0.02
    while time.process_time() < until_s:
        pass
    after = figures()
    os.close(read)
    os.close(write)

    assert after.open_descriptors == before.open_descriptors + 2
    assert after.cpu_s >= before.cpu_s + 0.02
    assert after.started_s == pytest.approx(before.started_s, abs=0.05)


def test_machine_without_proc_knows_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The call raises nothing."""
    monkeypatch.setattr(process_figures, "STAT", tmp_path / "none")

    assert figures()[1:3] == (0, 0)
    assert figures().started_s == 0
    assert figures().cpu_s > 0
