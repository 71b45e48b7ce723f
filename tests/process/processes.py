"""Which processes still run, and which broker holds the controller lease: seen from outside the cluster."""

import contextlib
import os
import signal
import socket
import sqlite3
import struct
from pathlib import Path
from typing import Final

import psutil

from syncline.coordination.sqlite import stored_image
from syncline.model.metadata import MetadataImage
from tests.cluster import LocalCluster
from tests.patience import until

# Fixed ports of the workers of a test run, between 20,000 and 30,000.
WORKERS_MAX: Final = 10
PORTS_PER_WORKER: Final = 1_000


def of_directory(data: Path) -> list[psutil.Process]:
    """Return the processes that have a file of this data directory open: the brokers and their supervisor."""
    prefix = str(data)
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != psutil.Process().pid and any(
                file.path.startswith(prefix) for file in process.open_files()
            ):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def await_none(data: Path, within_s: float = 15.0) -> None:
    """Return once no process uses the data directory any more."""
    until(
        lambda: not of_directory(data),
        within_s,
        otherwise=lambda: f"processes are left: {[(each.pid, each.status()) for each in of_directory(data)]}",
    )


def lease(data: Path) -> tuple[int, int]:
    """Return (broker id, lease epoch) of the controller lease, as the store has it."""
    connection = sqlite3.connect(f"file:{data / 'cluster.db'}?mode=ro", uri=True, timeout=10)
    try:
        broker_id, epoch = connection.execute("SELECT broker_id, epoch FROM lease").fetchone()
    finally:
        connection.close()
    return int(broker_id), int(epoch)


def await_new_lease(data: Path, old_epoch: int, within_s: float) -> tuple[int, int]:
    """Return the first lease after `old_epoch`."""
    until(
        lambda: lease(data)[1] > old_epoch, within_s, otherwise=f"no broker took over lease {old_epoch}", pause_s=0.005
    )
    return lease(data)


def stored_metadata(data: Path) -> MetadataImage:
    """Return the cluster's metadata as the store on the disk has it."""
    connection = sqlite3.connect(f"file:{data / 'cluster.db'}?mode=ro", uri=True, timeout=10)
    try:
        return stored_image(connection)
    finally:
        connection.close()


def lease_epochs_written(data: Path) -> list[int]:
    """Return the lease epoch of each committed batch, oldest first."""
    connection = sqlite3.connect(f"file:{data / 'cluster.db'}?mode=ro", uri=True, timeout=10)
    try:
        return [epoch for (epoch,) in connection.execute("SELECT lease_epoch FROM batches ORDER BY version")]
    finally:
        connection.close()


def kill_everything(cluster: LocalCluster) -> None:
    """SIGKILL the supervisor and all brokers, as close together as it gets; return when they are gone."""
    running = cluster.running
    for pid in (running.supervisor_pid, *running.broker_pids.values()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    cluster.process.wait(10)
    await_none(cluster.directory, 10)


def free_port_range(count: int) -> int:
    """Return the first of `count` consecutive ports that are free now; outside the range that the system hands out.

    Each worker of a test run has ports of its own: those of a cluster that is down for a moment seem free, and its
    producers would write to another worker's cluster.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    assert worker < WORKERS_MAX, f"no ports for worker {worker}"
    begin = 20_000 + worker * PORTS_PER_WORKER
    for first in range(begin + os.getpid() % (PORTS_PER_WORKER // 2), begin + PORTS_PER_WORKER - count, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    listener = stack.enter_context(socket.socket())
                    listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def backlog_of(listener: socket.socket) -> int:
    """Return how many connections a listener keeps: Linux has it in the field for selective acknowledgements."""
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("<I", info, 28)[0])
