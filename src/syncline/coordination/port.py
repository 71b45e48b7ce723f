"""The Coordination port: the store of cluster metadata, and which broker may write to it.

One broker at a time holds the controller **lease**. A lease has an epoch, which
rises by one with each holder and is the fence: a commit under an epoch that is
no longer current changes nothing and fails with `LeaseLost`. That check is part
of the same transaction as the write, so a holder that was paused, replaced and
resumed can do no harm, whatever it believes.

How a lease changes hands:
1. The holder's process ends: the store notices at once and gives the lease to
   one of the campaigners.
2. The holder is silent (paused, or stuck) and does not `renew`. Campaigners call
   `observe` regularly; one that has seen no renewal for longer than the patience
   takes over the lease, and `Lease.silent` names the holder that it deposed.

All callbacks are called on the event loop, never from inside the call that
received them. Units: `now_ms` and `patience_ms` are monotonic milliseconds;
versions and batches are those of `model.metadata`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage


class LeaseLost(Exception):
    """The commit was refused: another broker now holds the lease."""


class StoreFailed(Exception):
    """The store could not be read or written (disk full, damaged file); nothing changed."""


class Batch(NamedTuple):
    """One commit: the JSON of its changes, and the version that results."""

    version: int
    text: str


class Holder(NamedTuple):
    """The broker that holds the lease, and its address for other brokers."""

    broker_id: BrokerId
    host: str
    port: int
    lease_epoch: int


class Lease(NamedTuple):
    """What a campaigner wins: the lease epoch, the current state, and the holder that it deposed, if any."""

    lease_epoch: int
    image: MetadataImage
    silent: BrokerId | None


class Coordination(Protocol):
    """The store of one cluster's metadata, as one broker sees it."""

    def holder(self) -> Holder | None:
        """Return the holder according to the store; it may have died a moment ago."""

    def campaign(self, candidate: Holder, won: Callable[[Lease], None]) -> None:
        """Campaign for the lease until `close`; `won` may be called again after a lease was lost.

        `candidate.lease_epoch` is ignored.
        """

    def observe(self, now_ms: int, patience_ms: int) -> None:
        """Check whether the holder still renews; take over if it has not for longer than `patience_ms`."""

    def renew(self, lease_epoch: int) -> bool:
        """Show that the holder is alive; return False if another broker now holds the lease."""

    def commit(self, batches: Sequence[Batch], lease_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Write the batches durably, all or none; then call `done` with None, `LeaseLost` or `StoreFailed`.

        Commits of one holder take effect in the order of the calls.
        """

    def compact(self, image: MetadataImage, lease_epoch: int) -> None:
        """Replace the batches up to the image's version by a snapshot, when convenient."""

    def resign(self, lease_epoch: int) -> None:
        """Give up the lease, if this broker still holds it, and stop campaigning."""

    def close(self) -> None:
        """Stop campaigning, drop the lease, release everything; no callback is called after this."""
