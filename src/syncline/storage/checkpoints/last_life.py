"""How the last broker of a data directory ended, and what follows for its logs.

    .kafka_cleanshutdown   written last by a clean stop, removed first by a start (M53)
    boot                   the machine's boot in which the logs were last known good
    registered             the boot and the broker epoch of the last registration

One hard idea: a broker ends in one of three ways. After a clean stop every log
is whole. After a kill every write is there, as long as the machine keeps
running. After a power cut, or if nothing proves that there was none, any
unflushed write may be missing.

Invariant: the broker epoch of a life that may have lost a write is not claimed.
"""

import contextlib
from typing import Final

from syncline.model.ids import NONE
from syncline.storage.checkpoints.formats import decode_clean_mark, encode_clean_mark
from syncline.storage.disk import Disk, Lock

CLEAN_MARK_FILE: Final = ".kafka_cleanshutdown"
BOOT_FILE: Final = "boot"
EPOCH_FILE: Final = "registered"


class LastLife:
    """What the files of one data directory record about its last broker, and what this one records for the next."""

    def __init__(self, disk: Disk, path: str, lock: Lock) -> None:
        self.was_clean = False
        # Epoch of the last registration whose writes are all here, -1 if there is none.
        self.previous_broker_epoch = NONE
        # True until `compare_boots` has shown that there was no power cut.
        self.may_lack_writes = True
        self._disk = disk
        self._path = path
        self._lock = lock
        self._boot_id = ""

    def take_clean_mark(self) -> None:
        """Read and remove the mark, before anything else, so that no crash leaves it behind (M53)."""
        mark = f"{self._path}/{CLEAN_MARK_FILE}"
        if self._disk.exists(mark):
            self.was_clean = True
            self.previous_broker_epoch = decode_clean_mark(self._disk.read_file(mark))
            self._disk.remove(mark)
            self._disk.sync_directory(self._path)

    def compare_boots(self) -> None:
        """Find out whether the machine has rebooted since the logs were last known good."""
        boot_id = self._boot_id = self._disk.boot_id()
        self.may_lack_writes = not boot_id or boot_id != self._read_text(BOOT_FILE)
        if self.previous_broker_epoch == NONE and not self.may_lack_writes:
            # Killed, but the machine kept running: everything that the dead process had written is here.
            self.previous_broker_epoch = self._registered_on(boot_id)
        assert self.previous_broker_epoch == NONE or self.was_clean or not self.may_lack_writes, (
            f"{self._path}: epoch {self.previous_broker_epoch} is claimed, though its writes may be lost"
        )

    def logs_are_loaded(self) -> None:
        """Record that the logs are good on this boot; any earlier, a crash would pass torn logs for whole ones."""
        if self._boot_id and self.may_lack_writes:
            self._disk.replace_file(f"{self._path}/{BOOT_FILE}", self._boot_id.encode())

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the mark of a clean stop, as the broker's last action. Raises OSError."""
        self._disk.replace_file(f"{self._path}/{CLEAN_MARK_FILE}", encode_clean_mark(broker_epoch))

    def record_registration(self, broker_epoch: int) -> None:
        """Record this process's registration, for the next start on the same boot; a power cut invalidates it.

        So does a copy of the directory: one made while it was in use lacks what was written since.
        """
        text = f"{self._disk.boot_id()} {broker_epoch} {self._lock.identity()}"
        self._disk.replace_file(f"{self._path}/{EPOCH_FILE}", text.encode(), sync=False)

    def forget_registration(self) -> None:
        """Make sure that the next start claims no broker epoch."""
        with contextlib.suppress(OSError):
            self._disk.remove(f"{self._path}/{EPOCH_FILE}")

    def _registered_on(self, boot_id: str) -> int:
        """Return the epoch of the last registration on this boot, -1 if there was none.

        A registration on an earlier boot does not count: what was written after it may be lost, even if this
        broker never registered again. The file is not synced, so after a power cut it may hold anything.
        """
        boot, _, rest = self._read_text(EPOCH_FILE).partition(" ")
        epoch, _, identity = rest.partition(" ")
        is_ours = boot == boot_id and identity == self._lock.identity()
        return int(epoch) if is_ours and epoch.isdigit() else NONE

    def _read_text(self, name: str) -> str:
        try:
            return self._disk.read_file(f"{self._path}/{name}").decode(errors="replace")
        except FileNotFoundError:
            return ""
