"""The two other processes of an attack, and how this one talks with them: a line of JSON at a time."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any, Final

from tests.attack.scene import Scene
from tests.cluster import ROOT

READY_S: Final = 90.0
# Beyond a case's own limit: for the last answers, and for a machine that is busy.
GRACE_S: Final = 15.0
VERDICT_S: Final = 100.0


class ChildLost(Exception):
    """A process ended, or did not answer in time."""


class Child:
    """A process that writes lines of JSON."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=module, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def send(self, fields: dict[str, Any]) -> None:
        """Write a line to the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(fields) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ChildLost(f"{self._name} has ended: {error}") from error

    def next(self, within_s: float) -> dict[str, Any]:
        """Return the next line."""
        try:
            line = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise ChildLost(f"{self._name} wrote nothing for {within_s:.0f} s") from None
        if line is None:
            raise ChildLost(f"{self._name} has ended")
        return line

    def waiting(self) -> list[dict[str, Any]]:
        """Return the lines that are there."""
        return [self.next(0.0) for _ in range(self._lines.qsize())]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)


class Attacker:
    """The attacker; one that is lost is replaced for the next case."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def prepare(self, case: str, *, short: bool, scene: Scene) -> None:
        """Return when the attacker has everything that it will send."""
        if self._child is None:
            self._child = Child("tests.attack.attacker")
        self._child.send({"case": case, "short": short, "scene": scene.encoded()})
        self._child.next(READY_S)

    def attack(self, within_s: float) -> dict[str, Any]:
        """Return what came of the prepared case."""
        assert self._child is not None, "prepared first"
        self._child.send({"go": True})
        return self._child.next(within_s + GRACE_S)

    def close(self) -> None:
        """End the attacker."""
        if self._child is not None:
            self._child.close()
            self._child = None


class Neighbour:
    """The well-behaved client, and what it has experienced so far."""

    def __init__(self, bootstrap: str, partitions: int, rate_per_s: float) -> None:
        self._child = Child("tests.attack.neighbour", bootstrap, str(partitions), str(rate_per_s))
        # (sent, took) of each acknowledged record, in seconds of the monotonic clock.
        self.acks: list[tuple[float, float]] = []
        # (until when, how late this process woke up in the quarter of a second before).
        self.lateness: list[tuple[float, float]] = []
        self.trouble: list[str] = []
        self._oldest_s: float | None = None
        self._heard_s = 0.0

    def listen(self) -> None:
        """Take what the neighbour has reported."""
        for line in self._child.waiting():
            self._take(line)

    def settle(self, sent_until_s: float, within_s: float) -> bool:
        """Wait until everything sent before a time is acknowledged; return whether it was."""
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            self.listen()
            if self._heard_s > sent_until_s and (self._oldest_s is None or self._oldest_s > sent_until_s):
                return True
            time.sleep(0.02)
        return False

    def finish(self) -> str:
        """Stop it, and return what is wrong with what it wrote and read; "" if nothing is."""
        self._child.send({})
        while "verdict" not in (line := self._child.next(VERDICT_S)):
            self._take(line)
        return str(line["verdict"])

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def acks_ms(self, since_s: float, until_s: float) -> list[float]:
        """Return how long acknowledgements of records sent in this time took."""
        return [1_000 * took_s for sent_s, took_s in self.acks if since_s <= sent_s <= until_s]

    def late_ms(self, since_s: float, until_s: float) -> float:
        """Return how late its own process woke up at worst."""
        return 1_000 * max((late for at_s, late in self.lateness if since_s <= at_s <= until_s + 0.25), default=0.0)

    def _take(self, line: dict[str, Any]) -> None:
        self._heard_s = line["at"]
        self.acks += [(sent_s, took_s) for sent_s, took_s in line["acks"]]
        self.lateness.append((self._heard_s, line["late"]))
        self.trouble = list(line["trouble"])
        self._oldest_s = line["oldest"]
