"""The SQLite store: the contract, and what only real files and processes show."""

import contextlib
import gc
import os
import platform
import queue
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from syncline.coordination.port import Coordination, Holder, Lease, LeaseLost, StoreFailed
from syncline.coordination.sqlite import BATCHES_MAX, SqliteCoordination
from syncline.local.memory import resident_bytes, trim_heap
from syncline.model.ids import BrokerId
from syncline.model.metadata import ConfigResource, ConfigsChanged, MetadataImage, ProducerIdsAllocated, ResourceType
from tests.coordination.contract import Campaigner, CoordinationContract, batch
from tests.patience import until

PATIENCE_S = 10.0


class SqliteWorld:
    """A directory, and a queue in place of the event loop."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.calls: queue.Queue[tuple[Callable[..., object], tuple[object, ...]]] = queue.Queue()
        self.views: list[SqliteCoordination] = []

    def open(self) -> SqliteCoordination:
        """Return another view."""
        view = SqliteCoordination(self.directory, lambda callback, *args: self.calls.put((callback, args)))
        self.views.append(view)
        return view

    def until(self, condition: Callable[[], object]) -> None:
        """Run what the threads handed over until `condition` holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            callback, args = self.calls.get(timeout=max(0.001, deadline - time.monotonic()))
            callback(*args)

    def die(self, view: Coordination) -> None:
        """Drop the lease as the end of the process would."""
        view.close()


@pytest.fixture(name="world")
def sqlite_world(tmp_path: Path) -> Iterator[SqliteWorld]:
    """A fresh store."""
    world = SqliteWorld(tmp_path)
    yield world
    for view in world.views:
        view.close()


class TestSqlite(CoordinationContract):
    """The contract, on SQLite."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[SqliteWorld]:
        """A fresh store."""
        world = SqliteWorld(tmp_path)
        yield world
        for view in world.views:
            view.close()


def test_long_history_is_compacted_by_the_next_holder(world: SqliteWorld) -> None:
    """A new holder that finds many batches leaves a snapshot."""
    first = Campaigner(world, 1).wins()
    second = Campaigner(world, 2)
    batches = [batch(version, ProducerIdsAllocated(version)) for version in range(1, BATCHES_MAX + 2)]
    assert first.commit(*batches) is None
    first.view.close()
    second.wins()

    with contextlib.closing(sqlite3.connect(world.directory / "cluster.db")) as database:
        assert database.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)
        assert database.execute("SELECT version FROM snapshot").fetchone() == (BATCHES_MAX + 1,)
    assert second.lease.image.version == BATCHES_MAX + 1


def test_state_survives_the_end_of_all_brokers(world: SqliteWorld) -> None:
    """All brokers stop; the next one to start has the whole state and a higher epoch."""
    first = Campaigner(world, 1).wins()
    assert first.commit(batch(1, ProducerIdsAllocated(7))) is None
    first.view.close()
    again = Campaigner(world, 2).wins()

    assert again.lease.lease_epoch == first.lease.lease_epoch + 1
    assert again.lease.image.next_producer_id == 7


HOLDER = """
import queue, sys
from syncline.coordination.port import Batch, Holder
from syncline.coordination.sqlite import SqliteCoordination
calls = queue.Queue()
view = SqliteCoordination(sys.argv[1], lambda callback, *args: calls.put((callback, args)))
view.campaign(Holder(9, "host", 9, 0), lambda lease: print("won", lease.lease_epoch, flush=True))
def run():
    callback, args = calls.get()
    callback(*args)
run()
for line in sys.stdin:
    batch = Batch(int(line), '[["producer-ids",%d]]' % int(line))
    view.commit([batch], 1, lambda failure: print(type(failure).__name__, flush=True))
    run()
"""


@pytest.fixture(name="holder")
def holder_process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease of the store in `tmp_path`, and commits a version per line of input."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "won 1\n"
    yield process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def order(process: subprocess.Popen[str], version: int) -> str:
    """Let the other process commit a version, and return the type of what came of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{version}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@pytest.mark.process
def test_killed_holder_is_succeeded_at_once(world: SqliteWorld, holder: subprocess.Popen[str]) -> None:
    """SIGKILL drops the lock: the next campaigner wins at once, with everything that was committed."""
    second = Campaigner(world, 2)
    assert order(holder, 1) == "NoneType"
    holder.kill()
    second.wins()

    assert second.lease.lease_epoch == 2
    assert second.lease.image.version == 1
    assert second.lease.silent is None


@pytest.mark.process
def test_stopped_holder_keeps_its_lock_but_not_the_lease(world: SqliteWorld, holder: subprocess.Popen[str]) -> None:
    """A stopped process is deposed by patience; woken up, its commit is refused, and it has harmed nothing."""
    second = Campaigner(world, 2)
    third = Campaigner(world, 3)
    holder.send_signal(signal.SIGSTOP)
    second.view.observe(0, 1_000)
    second.view.observe(1_001, 1_000)
    second.wins()
    assert second.commit(batch(1, ProducerIdsAllocated(5))) is None
    holder.send_signal(signal.SIGCONT)
    refused = order(holder, 1)
    third.view.observe(0, 1_000)
    second.view.close()
    third.wins()

    assert second.lease.silent == 9
    assert refused == LeaseLost.__name__
    assert third.lease.image.next_producer_id == 5


def test_store_that_cannot_be_opened_for_writing_fails_the_commit_and_not_the_next(
    world: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptors left, for instance: the holder gets the error, and may write again when that is over."""
    first = Campaigner(world, 1).wins()
    connect = sqlite3.connect
    failures = [sqlite3.OperationalError("unable to open database file")]

    def connect_or_fail(*args: Any, **options: Any) -> sqlite3.Connection:
        if failures:
            raise failures.pop()
        return connect(*args, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_or_fail)
    refused = first.commit(batch(1, ProducerIdsAllocated(5)))
    accepted = first.commit(batch(1, ProducerIdsAllocated(6)))

    assert isinstance(refused, StoreFailed)
    assert accepted is None


@contextlib.contextmanager
def without_descriptors() -> Iterator[None]:
    """Let this process open nothing."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_campaigner_waits_in_one_thread_however_often_a_silent_holder_is_deposed(world: SqliteWorld) -> None:
    """Guards: those that waited for a deposed holder's lock waited for the next one twice, each with a descriptor."""
    threads = frozenset(threading.enumerate())
    holder, following, other = Campaigner(world, 1).wins(), Campaigner(world, 2), Campaigner(world, 3)
    for turn in range(6):
        now_ms, won_count = 10_000 * turn, len(following.leases)
        following.view.observe(now_ms, 1_000)
        following.view.observe(now_ms + 1_001, 1_000)
        world.until(partial(_has_won_again, following, won_count))
        for each in (other, holder):
            each.view.observe(now_ms + 1_002, 1_000)
        holder, following, other = following, other, holder

    def waiting() -> list[str]:
        return sorted(each.name for each in threading.enumerate() if each not in threads)

    until(lambda: len(waiting()) <= 3, otherwise=lambda: f"they wait in {waiting()}")


def _has_won_again(campaigner: Campaigner, won_count: int) -> bool:
    return len(campaigner.leases) > won_count


def test_holder_keeps_the_lease_and_commits_without_descriptors(world: SqliteWorld) -> None:
    """Guards: the controller needs no new descriptor for handing over the partitions of its own broker."""
    holder = Campaigner(world, 1).wins()
    epoch = holder.lease.lease_epoch
    outcomes = [holder.commit(batch(1))]
    with without_descriptors():
        for now_ms in range(0, 3_000, 500):
            holder.view.observe(now_ms, 1_000)
            assert holder.view.renew(epoch)
        found = holder.view.holder()
        outcomes.append(holder.commit(batch(2)))

    assert outcomes == [None, None]
    assert found is not None
    assert found.lease_epoch == epoch


def test_campaign_goes_on_when_there_are_descriptors_again(
    world: SqliteWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards: a broker that could not open the lease's file at the wrong moment is a candidate again later."""
    first = Campaigner(world, 1).wins()
    leases: list[Lease] = []
    second = world.open()
    with without_descriptors():
        second.campaign(Holder(BrokerId(2), "host", 9002, 0), leases.append)
        until(lambda: "cannot campaign" in caplog.text, otherwise="it campaigns without a descriptor")
    second.observe(0, 1_000)
    world.die(first.view)
    world.until(lambda: leases)

    assert leases[0].lease_epoch == first.lease.lease_epoch + 1


def test_statements_leave_no_cursors_behind(world: SqliteWorld) -> None:
    """Python would keep the references to two hundred, from as many seconds, each in a page of that time's burst."""
    holder = Campaigner(world, 1).wins()
    assert holder.commit(batch(1, ProducerIdsAllocated(1))) is None
    before = ended_references()
    for version in range(2, 52):
        assert holder.view.holder() is not None
        assert holder.commit(batch(version, ProducerIdsAllocated(version))) is None

    assert ended_references() - before < 10


def ended_references() -> int:
    """Return how many weak references there are to objects that are gone."""
    return sum(type(each) is weakref.ref and each() is None for each in gc.get_objects())


LONG_CHARS = 8_000_000
# The thread gives the text back when the disk has the snapshot.
GIVEN_BACK_S = PATIENCE_S
SNAPSHOT = """
import sys
from pathlib import Path
from tests.coordination.test_sqlite import SqliteWorld, grown_bytes_after_snapshot
print(grown_bytes_after_snapshot(SqliteWorld(Path(sys.argv[1]))))
"""


def grown_bytes_after_snapshot(world: SqliteWorld) -> int:
    """Return by how much this process has grown, at the least, after a long snapshot was written and dropped."""
    first = Campaigner(world, 1).wins()
    assert first.commit(batch(1, ProducerIdsAllocated(1))) is None
    trim_heap()
    before = resident_bytes()
    change = ConfigsChanged(ConfigResource(ResourceType.TOPIC, "t"), {"name": "v" * LONG_CHARS})
    image = MetadataImage().apply([ProducerIdsAllocated(1), change], 1)
    first.view.compact(image, first.lease.lease_epoch)
    del change, image
    log = world.directory / "cluster.db-wal"
    until(lambda: log.stat().st_size > LONG_CHARS, otherwise="the snapshot is not written")
    least_bytes = resident_bytes()
    give_up_s = time.monotonic() + GIVEN_BACK_S
    while time.monotonic() < give_up_s and least_bytes - before > LONG_CHARS / 4:
        time.sleep(0.05)
        trim_heap()
        least_bytes = min(least_bytes, resident_bytes())
    first.view.close()
    return least_bytes - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to return memory")
def test_snapshot_that_was_written_does_not_stay_in_memory(tmp_path: Path) -> None:
    """A statement that is kept for the next call keeps a copy of the text that was bound to it.

    In a process of its own: another one has had other tests.
    """
    run = subprocess.run(
        [sys.executable, "-c", SNAPSHOT, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    )

    assert int(run.stdout) < LONG_CHARS / 4
