"""Coordination on one machine: a SQLite file for the metadata, file locks for the lease.

The store is an append-only table of batches after a snapshot, and one row that
names the holder of the lease. A commit checks that row and writes its batches in
one transaction: that is the fence.

Epoch N of the lease belongs to the broker that holds an exclusive lock (`flock`)
on `lease-N.lock`; the operating system drops the lock when the process ends, in
whatever way. Each campaigner has a thread that is blocked on the lock of the
current epoch. To take over, a campaigner
1. gets the lock of epoch N (its holder has ended), or skips this step if the
   holder has been silent for too long: a paused process keeps its lock;
2. gets the lock of N+1 without waiting (otherwise another one is taking over);
3. in one transaction, sets the row from N to N+1: only one can succeed;
4. loads the state: no other broker can commit any more.
A thread that wakes up with an old epoch's lock finds the row changed, and waits for the present epoch's lock; it ends
if another thread of its campaigner does so already.

A holder shows that it is alive by touching its lock file; campaigners compare
the file's time with the time that they saw before, never with their own clock.

One thread does all writing, in the order of the calls; callbacks return to the
event loop through `call_soon_threadsafe`.
"""

import fcntl
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from syncline.coordination.port import Batch, Holder, Lease, LeaseLost, StoreFailed
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage
from syncline.model.metadata_json import decode_changes, encode_changes

log = logging.getLogger("syncline.coordination")

DATABASE_NAME: Final = "cluster.db"
# Metadata names what users have: it is for the user of the cluster alone. SQLite gives the files beside it its mode.
FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
# The store is busy while another broker takes over or compacts: both take milliseconds.
BUSY_TIMEOUT_S: Final = 10.0
# The event loop also reads and must not wait for a busy store; it soon reads again.
READ_TIMEOUT_S: Final = 0.05
# How much of the store each connection keeps in memory.
CACHE_KIB: Final = 256
# A new holder that finds more batches than this after the snapshot makes a new snapshot.
BATCHES_MAX: Final = 500

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS batches (version INTEGER PRIMARY KEY, lease_epoch INTEGER NOT NULL, changes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, changes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lease (
    id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL,
    broker_id INTEGER NOT NULL, host TEXT NOT NULL, port INTEGER NOT NULL);
PRAGMA user_version = 1;
"""


class CallSoon(Protocol):
    """How a thread hands a call to the event loop: `loop.call_soon_threadsafe`."""

    def __call__(self, callback: Callable[..., object], /, *args: Any) -> object:
        """Run `callback` on the loop soon."""


class _Sighting(NamedTuple):
    """A sign of life of the holder: its epoch, its lock file's time, and when this broker first saw that time."""

    epoch: int
    renewed_ns: int
    since_ms: int


class SqliteCoordination:
    """The store of a cluster whose brokers share a directory; `coordination.port` describes the methods."""

    def __init__(self, directory: str | Path, call_soon: CallSoon) -> None:
        self._directory = Path(directory)
        self._call_soon = call_soon
        self._path = self._directory / DATABASE_NAME
        self._directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        self._prepare()
        self._reader = _connect(self._path, READ_TIMEOUT_S)
        # One cursor for all statements: a connection remembers two hundred that have ended.
        self._reads = self._reader.cursor()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        # Used only by the writing thread.
        self._writes: sqlite3.Cursor | None = None
        self._candidate: Holder | None = None
        self._won: Callable[[Lease], None] | None = None
        # Guards what the threads and the loop share: the held lease, which thread waits, and the end of the campaign.
        self._guard = threading.Lock()
        self._held_epoch = 0
        self._held_file: int | None = None
        self._closed = False
        # The epoch that the newest waiting thread waits for, -1 without one. Older threads end when they wake up.
        self._waiting_on = -1
        self._waiter: threading.Thread | None = None
        self._sighting: _Sighting | None = None

    def holder(self) -> Holder | None:
        """Return the holder of the lease according to the store, None while the store cannot be read."""
        try:
            return _read_holder(self._reads)
        except sqlite3.Error as error:
            log.warning("cannot read the cluster's store now: %s", error)
            return None

    def campaign(self, candidate: Holder, won: Callable[[Lease], None]) -> None:
        """Wait for the lock of the current epoch in a thread."""
        self._candidate = candidate
        self._won = won
        epoch = self._epoch()
        if epoch is not None:
            self._wait_for(epoch)

    def observe(self, now_ms: int, patience_ms: int) -> None:
        """Follow the epoch if it changed; take over if its holder shows no sign of life for `patience_ms`."""
        epoch = self._epoch()
        is_mine = self._held_epoch > 0 and epoch == self._held_epoch
        if epoch is None or is_mine or self._closed or self._candidate is None:
            self._sighting = None
            return
        self._drop_lease(self._held_epoch)
        self._wait_for(epoch)
        seen = _Sighting(epoch, self._renewed_ns(epoch), now_ms)
        before = self._sighting
        if before is None or before[:2] != seen[:2]:
            self._sighting = seen
        elif now_ms - before.since_ms > patience_ms:
            self._sighting = None
            thread = threading.Thread(
                target=self._take_over, args=(epoch,), kwargs={"silent": True}, name="lease-steal", daemon=True
            )
            thread.start()

    def renew(self, lease_epoch: int) -> bool:
        """Touch the lock file, unless another broker holds the lease."""
        present = self._epoch()
        if present is not None and present != lease_epoch:
            self._drop_lease(lease_epoch)
            return False
        try:
            os.utime(self._lock_path(lease_epoch))
        except OSError as error:
            # Campaigners will find this holder silent and depose it, as they should.
            log.warning("cannot renew the controller lease %s: %s", lease_epoch, error)
        return True

    def commit(self, batches: Sequence[Batch], lease_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Write the batches in the writing thread."""
        for older, newer in pairwise(batches):
            assert newer.version == older.version + 1, f"version {newer.version} follows {older.version} in one commit"
        rows = [(batch.version, lease_epoch, batch.text) for batch in batches]

        def write() -> None:
            failure = _transact(
                self._writing,
                lease_epoch,
                lambda cursor: cursor.executemany("INSERT INTO batches VALUES (?, ?, ?)", rows),
            )
            self._call_back(done, failure)

        self._submit(write)

    def compact(self, image: MetadataImage, lease_epoch: int) -> None:
        """Write a snapshot in the writing thread; if that fails, the store merely stays larger."""

        def write() -> None:
            text = encode_changes(image.as_changes())
            _transact(self._writing, lease_epoch, lambda cursor: _write_snapshot(cursor, image.version, text))

        self._submit(write)

    def resign(self, lease_epoch: int) -> None:
        """Drop the lock, so that another campaigner can get it at once."""
        with self._guard:
            self._closed = True
        self._drop_lease(lease_epoch)

    def close(self) -> None:
        """Drop the lease, and end the writing thread after its pending writes."""
        with self._guard:
            self._closed = True
            epoch = self._held_epoch
        self._drop_lease(epoch)
        writer, self._writer = self._writer, None
        if writer is not None:
            self._work.put(None)
            writer.join()
        self._reader.close()

    def _prepare(self) -> None:
        # Brokers that create the file at the same time would find it locked, so they take turns.
        turn = os.open(self._directory / "create.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            connection = _connect(self._path)
            try:
                if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(_SCHEMA)
            finally:
                connection.close()
        finally:
            os.close(turn)

    def _submit(self, task: Callable[[], None]) -> None:
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="cluster-writer", daemon=True)
            self._writer.start()
        self._work.put(task)

    def _write_all(self) -> None:
        try:
            while (task := self._work.get()) is not None:
                task()
                # While this thread waits, it would keep what it wrote, such as the image of a snapshot.
                del task
        finally:
            if self._writes is not None:
                self._writes.connection.close()

    def _writing(self) -> sqlite3.Cursor:
        """Return the writing thread's cursor; after a failure the next task tries again."""
        if self._writes is None:
            self._writes = _connect(self._path).cursor()
        return self._writes

    def _call_back(self, callback: Callable[..., object], *args: object) -> None:
        if not self._closed:
            self._call_soon(callback, *args)

    def _epoch(self) -> int | None:
        """Return the lease's epoch, 0 before the first; None while the store cannot be read."""
        try:
            holder = _read_holder(self._reads)
        except sqlite3.Error as error:
            log.warning("cannot read the cluster's store now: %s", error)
            return None
        return 0 if holder is None else holder.lease_epoch

    def _lock_path(self, epoch: int) -> Path:
        return self._directory / f"lease-{epoch}.lock"

    def _open_lock(self, epoch: int) -> int:
        return os.open(self._lock_path(epoch), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def _renewed_ns(self, epoch: int) -> int:
        try:
            return self._lock_path(epoch).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _wait_for(self, epoch: int) -> None:
        """Have a thread wait for the lock of an epoch, unless one waits for it, or for the next one, already."""
        thread = threading.Thread(target=self._wait, args=(epoch,), name=f"lease-{epoch}", daemon=True)
        with self._guard:
            if epoch <= self._waiting_on:
                return
            self._waiting_on, self._waiter = epoch, thread
        thread.start()

    def _goes_on_waiting(self, epoch: int) -> bool:
        """Note that this thread waits for another epoch now (-1: for none); return False if it has been replaced."""
        with self._guard:
            if self._waiter is not threading.current_thread():
                return False
            self._waiting_on = epoch
            return True

    def _wait(self, epoch: int) -> None:
        while True:
            try:
                lock = self._open_lock(epoch)
            except OSError as error:
                # A full disk or no descriptors left: `observe` starts a new campaign.
                log.warning("cannot campaign for the controller lease: %s", error)
                self._goes_on_waiting(-1)
                return
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                present = self._take_over(epoch)
            finally:
                os.close(lock)
            if present is None:
                return
            # Unchanged: another campaigner is taking over, and holds the next lock until it is done or dead.
            epoch = epoch + 1 if present == epoch else present
            if not self._goes_on_waiting(epoch):
                return

    def _take_over(self, epoch: int, *, silent: bool = False) -> int | None:
        """Become the holder of `epoch` + 1 if the row still says `epoch`.

        Returns the epoch of the row if another campaigner was faster, None if there is nothing more to wait for.
        """
        candidate = self._candidate
        if candidate is None or self._closed:
            return None
        try:
            lock = self._open_lock(epoch + 1)
        except OSError as error:
            log.warning("cannot take the controller lease: %s", error)
            self._goes_on_waiting(-1)
            return None
        kept = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            connection = _connect(self._path)
            try:
                deposed = _read_holder(connection)
                if not _advance_lease(connection, epoch, candidate):
                    present = _read_holder(connection)
                    return 0 if present is None else present.lease_epoch
                image = stored_image(connection)
                _compact_if_long(connection, image, epoch + 1)
            finally:
                connection.close()
            os.utime(self._lock_path(epoch + 1))
            with self._guard:
                if self._closed:
                    return None
                assert epoch + 1 > self._held_epoch, f"lease {epoch + 1} was won while {self._held_epoch} is held"
                kept = True
                self._held_epoch, self._held_file = epoch + 1, lock
            self._remove_old_lock(epoch)
            won = self._won
            assert won is not None, "a candidate has a callback"
            silent_holder = deposed.broker_id if silent and deposed is not None else None
            self._call_back(won, Lease(epoch + 1, image, silent_holder))
        except BlockingIOError:
            return epoch
        except (sqlite3.Error, OSError) as error:
            # The store is busy or broken: `observe` starts a new campaign.
            log.warning("cannot take the controller lease: %s", error)
            self._goes_on_waiting(-1)
        finally:
            if not kept:
                os.close(lock)
        return None

    def _remove_old_lock(self, epoch: int) -> None:
        # No candidate that can still win waits for an epoch two terms old.
        self._lock_path(epoch - 1).unlink(missing_ok=True)

    def _drop_lease(self, lease_epoch: int) -> None:
        with self._guard:
            if self._held_epoch != lease_epoch or self._held_file is None:
                return
            file, self._held_file = self._held_file, None
            self._held_epoch = 0
        os.close(file)


def _connect(path: Path, timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    # A statement that Python keeps for the next call keeps a copy of what it wrote: megabytes, after a snapshot.
    connection = sqlite3.connect(
        path, timeout=timeout_s, isolation_level=None, check_same_thread=False, cached_statements=0
    )
    # Each commit is on disk before any broker acts on it: this file has no replicas.
    connection.execute("PRAGMA synchronous = FULL")
    # SQLite would keep 2 MB of pages for each connection, between what came and went while it read them.
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def _read_holder(reads: sqlite3.Connection | sqlite3.Cursor) -> Holder | None:
    # All rows, of which there is one at most: a cursor that may have more keeps its read open.
    rows = reads.execute("SELECT broker_id, host, port, epoch FROM lease").fetchall()
    return Holder(BrokerId(rows[0][0]), *rows[0][1:]) if rows else None


def _advance_lease(connection: sqlite3.Connection, epoch: int, candidate: Holder) -> bool:
    """Set the lease from `epoch` to the next one; return False if it is no longer at `epoch`."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        present = _read_holder(connection)
        if (0 if present is None else present.lease_epoch) != epoch:
            connection.execute("ROLLBACK")
            return False
        connection.execute(
            "INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?)",
            (epoch + 1, candidate.broker_id, candidate.host, candidate.port),
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def _transact(
    connect: Callable[[], sqlite3.Cursor], lease_epoch: int, write: Callable[[sqlite3.Cursor], object]
) -> Exception | None:
    """Run `write` in a transaction that succeeds only under this lease; return the error, if any."""
    try:
        cursor = connect()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            holder = _read_holder(cursor)
            if holder is None or holder.lease_epoch != lease_epoch:
                cursor.execute("ROLLBACK")
                return LeaseLost(f"the controller lease {lease_epoch} has gone to {holder}")
            write(cursor)
            cursor.execute("COMMIT")
        finally:
            if cursor.connection.in_transaction:
                cursor.execute("ROLLBACK")
    except sqlite3.Error as error:
        return StoreFailed(f"cluster metadata could not be written: {error}")
    return None


def stored_image(connection: sqlite3.Connection) -> MetadataImage:
    """Return the newest image of a store: its snapshot, and the batches after it."""
    image = MetadataImage()
    row = connection.execute("SELECT version, changes FROM snapshot").fetchone()
    if row is not None:
        image = image.apply(decode_changes(row[1]), row[0])
    batches = connection.execute(
        "SELECT version, changes FROM batches WHERE version > ? ORDER BY version", (image.version,)
    )
    for version, text in batches:
        image = image.apply(decode_changes(text), version)
    return image


def _compact_if_long(connection: sqlite3.Connection, image: MetadataImage, lease_epoch: int) -> None:
    (count,) = connection.execute("SELECT COUNT(*) FROM batches").fetchone()
    if count > BATCHES_MAX:
        text = encode_changes(image.as_changes())
        _transact(connection.cursor, lease_epoch, lambda cursor: _write_snapshot(cursor, image.version, text))


def _write_snapshot(cursor: sqlite3.Cursor, version: int, text: str) -> None:
    cursor.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?)", (version, text))
    cursor.execute("DELETE FROM batches WHERE version <= ?", (version,))
