"""The store of cluster metadata in memory, and the controller lease.

The store itself is safe (a committed batch stays), like the real one, a synced
file. Things go wrong around it: a commit takes time; its answer is lost if the
broker dies meanwhile; the lease changes hands when its holder dies, is silent
for too long, or for a reason that the holder cannot know (`lose_lease`).

`on_commit` gets every change of a commit, in order, as one image and the next: it
is the controller's history, which the checks read.
"""

import random
from collections.abc import Callable, Sequence

from syncline.coordination.port import Batch, Holder, Lease, LeaseLost
from syncline.model.ids import BrokerId
from syncline.model.metadata import Change, MetadataImage
from syncline.model.metadata_json import decode_changes
from syncline.virtual.determinism.trace import Trace
from syncline.virtual.time.durations import MS
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import KERNEL, Process, current_process

COMMIT_NS_MAX = 3 * MS
OnCommit = Callable[[MetadataImage, MetadataImage], None]


class ClusterStore:
    """What all brokers of a cluster share."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.image = MetadataImage()
        self.lease_epoch = 0
        self.holder: Holder | None = None
        self.holding: SimCoordination | None = None
        self.renewals = 0
        self.candidates: dict[SimCoordination, None] = {}
        self.on_commit: OnCommit | None = None
        # Called with the new holder of the lease, None while there is none.
        self.on_lease: Callable[[BrokerId | None], None] | None = None

    def process_died(self, process: Process) -> None:
        """Drop the candidacy of a dead process, and its lease if it held it."""
        for view in [view for view in self.candidates if view.process is process]:
            del self.candidates[view]
        if self.holding is not None and self.holding.process is process:
            self.vacate()

    def lose_lease(self) -> None:
        """Give the lease to another candidate without notifying its holder."""
        if self.holding is not None and len(self.candidates) > 1:
            self.vacate(excluded=self.holding)

    def vacate(self, excluded: "SimCoordination | None" = None) -> None:
        """Take the lease from its holder and let another candidate win it a little later."""
        self.holder = None
        self.holding = None
        self.lease_epoch += 1
        if self.on_lease is not None:
            self.on_lease(None)
        self.elect_later(excluded)

    def elect_later(self, excluded: "SimCoordination | None" = None) -> None:
        """Let a candidate win soon, if there is one by then."""
        delay_ns = 1 + int(self.rng.random() * COMMIT_NS_MAX)
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, self._elect, excluded, context=KERNEL)

    def _elect(self, excluded: "SimCoordination | None") -> None:
        if self.holding is not None:
            return
        able = [
            view for view in self.candidates if view is not excluded and (view.process is None or view.process.runs)
        ]
        if not able:
            # Paused candidates cannot take a lock; the first one that resumes will.
            if self.candidates:
                self.loop.call_at_ns(self.loop.now_ns + 10 * MS, self._elect, None, context=KERNEL)
            return
        self.give(self.rng.choice(able), silent=None)

    def give(self, view: "SimCoordination", silent: BrokerId | None) -> None:
        """Make `view` the holder, in a new term."""
        candidate = view.candidate
        assert candidate is not None
        self.lease_epoch += 1
        self.holder = candidate._replace(lease_epoch=self.lease_epoch)
        self.holding = view
        self.renewals += 1
        self.trace.record(self.loop.now_ns, "lease", candidate.broker_id, self.lease_epoch)
        if self.on_lease is not None:
            self.on_lease(candidate.broker_id)
        view.announce_won(Lease(self.lease_epoch, self.image, silent))

    def write(self, batches: Sequence[Batch], lease_epoch: int) -> Exception | None:
        """Add batches to the history, all or none."""
        if lease_epoch != self.lease_epoch or self.holding is None:
            return LeaseLost(f"lease {lease_epoch} is over, the current one is {self.lease_epoch}")
        for batch in batches:
            before = self.image
            assert batch.version == before.version + 1, f"version {batch.version} follows {before.version}"
            changes = decode_changes(batch.text)
            self.image = before.apply(changes, batch.version)
            self.trace.record(self.loop.now_ns, "commit", lease_epoch, batch.version, batch.text)
            if self.on_commit is not None:
                _report(before, changes, batch.version, self.on_commit)
        return None


def _report(before: MetadataImage, changes: Sequence[Change], version: int, on_commit: OnCommit) -> None:
    """Report changes one by one: a partition may join a member first, and be led by it with the next change."""
    for change in changes:
        after = before.apply((change,), version)
        on_commit(before, after)
        before = after


class SimCoordination:
    """The Coordination port, as one broker's process sees it."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._won: Callable[[Lease], None] | None = None
        self._seen: tuple[int, int] = (-1, 0)
        self._last_commit_ns = 0
        self.process = current_process.get()
        self.candidate: Holder | None = None

    def holder(self) -> Holder | None:
        """Return the current holder."""
        return self._store.holder

    def campaign(self, candidate: Holder, won: Callable[[Lease], None]) -> None:
        """Stand for the lease."""
        self.candidate = candidate
        self._won = won
        self._store.candidates[self] = None
        if self._store.holding is None:
            self._store.elect_later()

    def observe(self, now_ms: int, patience_ms: int) -> None:
        """Take the lease over from a holder that was silent for longer than the patience."""
        store = self._store
        renewals, since_ms = self._seen
        if store.holding is None or store.holding is self or renewals != store.renewals:
            self._seen = (store.renewals, now_ms)
        elif now_ms - since_ms > patience_ms and self.candidate is not None:
            deposed = store.holder
            self._seen = (-1, now_ms)
            store.give(self, silent=None if deposed is None else deposed.broker_id)

    def renew(self, lease_epoch: int) -> bool:
        """Show that the holder lives."""
        store = self._store
        if store.holding is not self or store.lease_epoch != lease_epoch:
            return False
        store.renewals += 1
        return True

    def commit(self, batches: Sequence[Batch], lease_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Write the batches a little later, and answer later still; commits keep their order."""
        loop = self._store.loop
        batches = tuple(batches)
        when_ns = max(self._last_commit_ns, loop.now_ns + 1 + int(self._store.rng.random() * COMMIT_NS_MAX))
        self._last_commit_ns = when_ns
        # In this process's context: if it dies before, it has not written; if it dies after, it never gets the answer.
        loop.call_at_ns(when_ns, self._write, batches, lease_epoch, done)

    def _write(self, batches: Sequence[Batch], lease_epoch: int, done: Callable[[Exception | None], None]) -> None:
        error = self._store.write(batches, lease_epoch)
        loop = self._store.loop
        when_ns = loop.now_ns + 1 + int(self._store.rng.random() * COMMIT_NS_MAX / 4)
        self._last_commit_ns = max(self._last_commit_ns, when_ns)
        loop.call_at_ns(when_ns, done, error)

    def compact(self, image: MetadataImage, lease_epoch: int) -> None:
        """Do nothing: one run fits into memory."""

    def resign(self, lease_epoch: int) -> None:
        """Give up the lease and stop campaigning."""
        self._store.candidates.pop(self, None)
        if self._store.holding is self and self._store.lease_epoch == lease_epoch:
            self._store.vacate()

    def close(self) -> None:
        """Stop campaigning and drop the lease."""
        self._won = None
        self._store.candidates.pop(self, None)
        if self._store.holding is self:
            self._store.vacate()

    def announce_won(self, lease: Lease) -> None:
        """Tell the broker that it holds the lease."""
        context = self.process.context if self.process is not None else None
        self._store.loop.call_soon(self._call_won, lease, context=context)

    def _call_won(self, lease: Lease) -> None:
        if self._won is not None:
            self._won(lease)
