"""The command that runs seeds in several processes."""

import subprocess
import sys


def test_run_spreads_seeds_over_processes() -> None:
    """Two processes run all seeds, and the exit status says that they passed."""
    done = subprocess.run(
        [sys.executable, "-m", "syncline.virtual", "run", "--seeds", "0..2", "--seconds", "2", "--jobs", "2"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[0].split(":")[0]) == (0, "3 of 3 seeds passed"), done.stderr
