"""The Coordination port: where cluster metadata lives, and who may write it.

One broker at a time holds the controller **lease**. A lease has an epoch, one
higher for each holder; it is the fence: a commit under an epoch that is no
longer current changes nothing and fails with `LeaseLost`. That check is part
of the same transaction as the write, so a holder that was stopped, replaced
and woken up cannot do harm, whatever it still believes.

How a lease changes hands:
1. The holder's process ends: the store notices by itself and at once, and
   hands the lease to one of the campaigners.
2. The holder is silent (stopped, or stuck): it does not `renew`. Campaigners
   look with `observe` every so often; one that saw no renewal for the whole
   patience takes the lease over, and learns whom it deposed (`Lease.silent`).

All callbacks are called on the event loop, never from inside the call that
got them. Units: `now_ms` and `patience_ms` are monotonic milliseconds;
versions and batches are those of `model.metadata`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage


class LeaseLost(Exception):
    """The commit was refused: another broker holds the lease by now."""


class StoreFailed(Exception):
    """The store could not be read or written (disk full, damaged file); nothing was changed."""


class Batch(NamedTuple):
    """One committed step: the JSON of its changes, and the version that it makes."""

    version: int
    text: str


class Holder(NamedTuple):
    """Who holds the lease, and where it serves other brokers."""

    broker_id: BrokerId
    host: str
    port: int
    lease_epoch: int


class Lease(NamedTuple):
    """What a campaigner wins: the term, the state to go on from, and a holder that had to be deposed, if any."""

    lease_epoch: int
    image: MetadataImage
    silent: BrokerId | None


class Coordination(Protocol):
    """The store of one cluster's metadata, as one broker sees it."""

    def holder(self) -> Holder | None:
        """Return the present holder as the store has it; it may have died a moment ago."""

    def campaign(self, candidate: Holder, won: Callable[[Lease], None]) -> None:
        """Stand for the lease until `close`; `won` may be called again after a lease was lost.

        `candidate.lease_epoch` is ignored.
        """

    def observe(self, now_ms: int, patience_ms: int) -> None:
        """Look whether the holder still renews; take over if it did not for longer than `patience_ms`."""

    def renew(self, lease_epoch: int) -> bool:
        """Show that the holder lives; return False when another broker holds the lease by now."""

    def commit(self, batches: Sequence[Batch], lease_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Write the batches durably, all or none; then call `done` with None, `LeaseLost` or `StoreFailed`.

        Commits of one holder are made in the order of the calls.
        """

    def compact(self, image: MetadataImage, lease_epoch: int) -> None:
        """Replace the batches up to the image's version by a snapshot, when convenient."""

    def resign(self, lease_epoch: int) -> None:
        """Give the lease up, if it is still held, and stop campaigning."""

    def close(self) -> None:
        """Stop campaigning, drop the lease, release everything; no callback comes after this."""
