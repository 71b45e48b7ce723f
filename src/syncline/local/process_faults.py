"""Faults of a broker's process: pausing (SIGSTOP) and killing (SIGKILL) it.

A broker cannot keep the state of its own pause, so a file in the data directory does. A process that another
program has stopped also counts as paused. Another broker journals the begin and the end.

Run as a program (`python -m`), this module ends a pause when its time is over: the process that began the pause may
have ended by then.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from syncline.local.control import ControlError
from syncline.local.layout import Layout, LocalClusterError, state_of
from syncline.local.named_brokers import LOOK_TIMEOUT_S, NamedBrokers
from syncline.local.private_files import write_private
from syncline.node.faults.names import KILL, PAUSE

# How long a signal may take to have an effect; a process that waits for its disk does not end at once.
SIGNAL_TIMEOUT_S: Final = 5.0
# How often the process that waits for the end of a pause checks whether the pause was cleared.
LOOK_AGAIN_S: Final = 0.2
PAUSE_ID: Final = re.compile(rf"{PAUSE}-\d+")


class ProcessFault(NamedTuple):
    """A fault of one broker's process."""

    # The fault in the form in which brokers describe theirs.
    row: dict[str, Any]
    # Whether a broker journalled its begin.
    is_recorded: bool


class ProcessFaults:
    """Pauses and kills in the cluster that runs in a data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._layout = Layout(directory)

    def pause(self, broker_id: int, for_s: float | None) -> ProcessFault:
        """Pause a broker's process; it resumes after `for_s`, or with `resume`."""
        pid = NamedBrokers(self._directory).pid(broker_id)
        if state_of(pid) == "paused":
            raise LocalClusterError(f"broker {broker_id} (process {pid}) is already paused.")
        note = f"SIGSTOP{f' for {for_s:g} s' if for_s is not None else ''}"
        is_recorded = self._record(PAUSE, broker_id, "begin", note)
        token = secrets.token_hex(8)
        until_ms = None if for_s is None else time.time_ns() // 1_000_000 + round(for_s * 1_000)
        state = {"pid": pid, "token": token, "until_ms": until_ms}
        os.kill(pid, signal.SIGSTOP)
        _await_state(pid, "paused")
        write_private(self._layout.pause_file(broker_id), json.dumps(state))
        if for_s is not None:
            command = [sys.executable, "-m", __name__, str(self._directory), str(broker_id), token, f"{for_s:.3f}"]
            with open(os.devnull, "r+b") as null:  # noqa: PTH123 - a device
                waker = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
            # Reap it if this process outlives it: a program that pauses many brokers would collect zombies.
            threading.Thread(target=waker.wait, name=f"pause-{broker_id}", daemon=True).start()
        return ProcessFault(pause_row(broker_id, state), is_recorded)

    def kill(self, broker_id: int) -> ProcessFault:
        """Kill a broker's process, and wait until it has ended."""
        pid = NamedBrokers(self._directory).pid(broker_id)
        is_recorded = self._record(KILL, broker_id, "begin", "SIGKILL")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _await_state(pid, "dead")
        self._record(KILL, broker_id, "end", "its process is gone")
        row = {"id": f"{KILL}-{broker_id}", "kind": KILL, "state": "over", "hits": 1, "seen": 1, "trigger": "once"}
        return ProcessFault(row, is_recorded)

    def paused(self) -> dict[int, dict[str, Any]]:
        """Return the state of each pause by broker; "token" is None if another program has stopped the process."""
        paused: dict[int, dict[str, Any]] = {}
        for broker_id, pid in sorted(NamedBrokers(self._directory).pids.items()):
            if state_of(pid) != "paused":
                self._layout.pause_file(broker_id).unlink(missing_ok=True)
            else:
                paused[broker_id] = {"pid": pid, "token": None, "until_ms": None}
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    state = json.loads(self._layout.pause_file(broker_id).read_text())
                    if state.get("pid") == pid:
                        paused[broker_id] = state
        return paused

    def resume(self, broker_id: int, state: dict[str, Any]) -> dict[str, Any]:
        """Resume a paused process; return the pause as brokers describe a fault that is over."""
        self._layout.pause_file(broker_id).unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(state["pid"]), signal.SIGCONT)
        self._record(PAUSE, broker_id, "end", "SIGCONT")
        return pause_row(broker_id, state) | {"state": "over", "left_ms": None}

    def resume_when_due(self, broker_id: int, token: str, after_s: float) -> None:
        """End a pause when its time is over; return sooner if it was cleared, or if the process has ended."""
        due_s = time.monotonic() + after_s
        while (state := self.paused().get(broker_id)) is not None and state.get("token") == token:
            left_s = due_s - time.monotonic()
            if left_s <= 0:
                self.resume(broker_id, state)
                return
            time.sleep(min(left_s, LOOK_AGAIN_S))

    def _record(self, kind: str, broker_id: int, phase: str, note: str) -> bool:
        """Have a broker journal a fault of a process; return whether one did."""
        ts_ms = time.time_ns() // 1_000_000
        # Ask the victim itself only if there is no other broker.
        brokers = NamedBrokers(self._directory).controls
        for _, control in sorted(brokers.items(), key=lambda item: item[0] == broker_id):
            with contextlib.suppress(ControlError):
                control.call(
                    "faults.record",
                    timeout_s=LOOK_TIMEOUT_S,
                    kind=kind,
                    target=f"broker-{broker_id}",
                    phase=phase,
                    note=note,
                    ts_ms=ts_ms,
                )
                return True
        return False


def pause_id(broker_id: int) -> str:
    """Return the id of the pause of a broker."""
    return f"{PAUSE}-{broker_id}"


def pause_row(broker_id: int, state: dict[str, Any]) -> dict[str, Any]:
    """Return a pause in the form in which brokers describe their faults."""
    until_ms = state.get("until_ms")
    return {
        "id": pause_id(broker_id),
        "kind": PAUSE,
        "state": "active",
        "hits": 1,
        "seen": 1,
        "trigger": "always",
        "left_ms": None if until_ms is None else max(0, until_ms - time.time_ns() // 1_000_000),
    }


def _await_state(pid: int, state: str) -> None:
    """Wait until a signal has taken effect."""
    deadline_s = time.monotonic() + SIGNAL_TIMEOUT_S
    while (now := state_of(pid)) not in {state, "dead"}:
        if time.monotonic() > deadline_s:
            raise LocalClusterError(f"process {pid} is {now} after a signal that should have made it {state}.")
        time.sleep(0.001)


if __name__ == "__main__":
    where, broker, its_token, seconds = sys.argv[1:]
    # If the cluster is gone, no process is paused any more.
    with contextlib.suppress(LocalClusterError):
        ProcessFaults(Path(where)).resume_when_due(int(broker), its_token, float(seconds))
