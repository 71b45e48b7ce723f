"""Burrow as a process: its configuration, its HTTP answers, and its own log, which has all that it was told.

With one storage worker, the lines of the log are in the order in which Burrow worked.
"""

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.patience import until

INTERVALS = 10
REFRESH_S = 2
# Burrow computes an answer anew after so long.
CACHE_S = 1
START_S = 30.0
CLUSTER = "local"

_CONFIG = """\
[general]
pidfile="{directory}/burrow.pid"
stdout-logfile="{directory}/burrow.out"

[logging]
filename="{directory}/burrow.log"
level="debug"
maxsize=1000

[client-profile.test]
client-id="burrow"
kafka-version="2.8.0"

[cluster.{cluster}]
class-name="kafka"
servers=[ {servers} ]
client-profile="test"
topic-refresh=10
offset-refresh={refresh_s}

[consumer.{cluster}]
class-name="kafka"
cluster="{cluster}"
servers=[ {servers} ]
client-profile="test"

[storage.default]
class-name="inmemory"
workers=1
intervals={intervals}
min-distance=0

[evaluator.default]
class-name="caching"
expire-cache={cache_s}

[httpserver.default]
address="127.0.0.1:{port}"
"""


class Burrow:
    """One process of Burrow."""

    def __init__(self, program: str, bootstrap: str, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.log = directory / "burrow.log"
        servers = ", ".join(f'"{each}"' for each in bootstrap.split(","))
        config = _CONFIG.format(
            directory=directory,
            cluster=CLUSTER,
            servers=servers,
            refresh_s=REFRESH_S,
            intervals=INTERVALS,
            cache_s=CACHE_S,
            port=self._port,
        )
        (directory / "burrow.toml").write_text(config)
        self._output = directory / "burrow.err"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [program, f"--config-dir={directory}"], cwd=directory, stdout=output, stderr=output
            )
        until(self._is_up, START_S, otherwise=lambda: f"Burrow did not start: {self._said()}")

    def _said(self) -> str:
        return self._output.read_text()[-2_000:]

    def _is_up(self) -> bool:
        assert self.process.poll() is None, f"Burrow ended: {self._said()}"
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/burrow/admin", timeout=2),
        ):
            return True
        return False

    def status(self, group: str) -> dict[str, Any] | None:
        """Return what Burrow says of a group and its partitions now; None if it does not know it."""
        url = f"http://127.0.0.1:{self._port}/v3/kafka/{CLUSTER}/consumer/{group}/lag"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)["status"]
        except urllib.error.HTTPError:
            return None
        return status

    def stop(self) -> None:
        """End it, and wait until it has written all lines."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of its log."""
        for text in self.log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(text)


def now_s() -> float:
    """Return the time of this machine's clock, which Burrow uses, too."""
    return time.time()
