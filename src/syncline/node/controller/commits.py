"""Group commit: decisions are made one after the other without waiting, and committed in batches.

Two images: the *committed* one is what brokers and clients may know; the *tentative* one is the committed image with
all decisions that wait for their commit. A decision is made on the tentative image, so that it need not wait for the
commits of others. Decisions made while a commit is in progress form the next batch.

    decide ──> waiting ──commit──> in commit ──stored──> committed image advances, brokers and requesters get it
                  └──────────────────┴───── not stored: both are undone and answered with None

A decision keeps the records that it replaces, and no image: there are two images and the one in commit, however many
decisions wait.

A decision that changes nothing is answered at once if all that it saw is committed, and otherwise with the commit
that it rests on.

Invariants: committed version <= tentative version; the waiting decisions lead from the committed image version by
version to the tentative one; decisions wait only while a commit is in progress, or begins in the next turn of the loop.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from syncline.coordination.port import Batch, Coordination, LeaseLost
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.decision_events import Replaced, replaced_by
from syncline.core.cluster.invariants import check_decision
from syncline.core.cluster.moves import applied
from syncline.model.metadata import Change, MetadataImage, PartitionsChanged, TopicCreated
from syncline.model.metadata_json import encode_changes

log = logging.getLogger("syncline.controller")

# A decision about more partitions is committed in the next turn of the loop: for ten thousand, to decide takes 6 ms and
# to write the batch another 3.
COMMITTED_AT_ONCE: Final = 500
# Number of batches after which the controller stores a snapshot.
COMPACT_AFTER_BATCHES: Final = 2_000

Decide = Callable[[MetadataImage, int], Decision[Any]]
# Called with the decision's answer, or None when it could not be committed.
Answered = Callable[[Any], None]


class Decided(NamedTuple):
    """A decision that waits for its commit; `changes` may be empty."""

    version: int
    replaced: Replaced
    changes: Sequence[Change]
    answer: Any
    answered: Answered
    why: Why
    proposed_by_leader: bool


class Commits:
    """The uncommitted decisions of one controller."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        coordination: Coordination,
        image: MetadataImage,
        lease_epoch: int,
        *,
        on_moved: Callable[[Sequence[Batch]], None],
        on_answered: Callable[[Sequence[Decided]], None],
        on_lease_lost: Callable[[], None],
        check_invariants: bool = False,
    ) -> None:
        self.committed = image
        self.tentative = image
        self.is_open = True
        self._loop = loop
        self._coordination = coordination
        self._lease_epoch = lease_epoch
        # Called when the committed image has advanced: before and after the requesters are answered.
        self._on_moved = on_moved
        self._on_answered = on_answered
        self._on_lease_lost = on_lease_lost
        self._is_checked = check_invariants
        self._waiting: list[Decided] = []
        self._in_commit: list[Decided] = []
        # Whether a commit begins in the next turn of the loop.
        self._is_due = False
        self._batches_since_snapshot = 0

    @property
    def waiting_count(self) -> int:
        """Return how many decisions wait for their commit."""
        return len(self._waiting) + len(self._in_commit)

    def decide(self, decide: Decide, answered: Answered, *, proposed_by_leader: bool = False) -> None:
        """Make a decision; `answered` gets its answer when everything that it rests on is committed."""
        if not self.is_open:
            self._loop.call_soon(answered, None)
            return
        before = self.tentative
        version = before.version + 1
        decision = decide(before, version)
        changes = decision.changes
        if not changes:
            if before is self.committed:
                answered(decision.answer)
                return
            version = before.version
        else:
            changes, self.tentative = applied(before, changes, version)
            if self._is_checked:
                check_decision(before, changes, self.tentative, decision.why)
        replaced = replaced_by(changes, before)
        self._waiting.append(
            Decided(version, replaced, changes, decision.answer, answered, decision.why, proposed_by_leader)
        )
        if not self._in_commit and not self._is_due:
            if _partition_count(changes) > COMMITTED_AT_ONCE:
                self._is_due = True
                self._loop.call_soon(self._commit)
            else:
                self._commit()
        if self._is_checked and self.is_open:
            self.check_invariants()

    def close(self) -> Sequence[Decided]:
        """Commit nothing more; return the unanswered decisions, for `refuse`."""
        self.is_open = False
        undecided, self._waiting, self._in_commit = [*self._in_commit, *self._waiting], [], []
        return undecided

    def _commit(self) -> None:
        self._is_due = False
        while self._waiting and not self._waiting[0].changes:
            # Nothing before it is uncommitted any more.
            decided = self._waiting.pop(0)
            _answer(decided, decided.answer)
        if not self._waiting or self._in_commit or not self.is_open:
            return
        self._in_commit, self._waiting = self._waiting, []
        # Everything decided so far is in this commit.
        image = self.tentative
        batches = [Batch(each.version, encode_changes(each.changes)) for each in self._in_commit if each.changes]
        self._coordination.commit(batches, self._lease_epoch, lambda failure: self._stored(batches, image, failure))

    def _stored(self, batches: Sequence[Batch], image: MetadataImage, failure: Exception | None) -> None:
        if not self.is_open:
            return
        if isinstance(failure, LeaseLost):
            self._on_lease_lost()
            return
        done, self._in_commit = self._in_commit, []
        if failure is not None:
            self._give_up(done, failure)
            return
        assert batches[-1].version == done[-1].version == image.version > self.committed.version, (
            f"version {batches[-1].version} was stored for {done[-1].version} after {self.committed.version}"
        )
        self.committed = image
        self._on_moved(batches)
        for decided in done:
            _answer(decided, decided.answer)
        self._on_answered(done)
        self._compact_if_due(len(batches))
        if not self._in_commit:
            self._commit()
        if self._is_checked and self.is_open:
            self.check_invariants()

    def _give_up(self, done: Sequence[Decided], failure: Exception) -> None:
        """Undo what could not be stored, and all decisions that rest on it."""
        log.error("%s", failure)
        self.tentative = self.committed
        waiting, self._waiting = self._waiting, []
        refuse((*done, *waiting))

    def _compact_if_due(self, batch_count: int) -> None:
        self._batches_since_snapshot += batch_count
        if self._batches_since_snapshot >= COMPACT_AFTER_BATCHES:
            self._batches_since_snapshot = 0
            self._coordination.compact(self.committed, self._lease_epoch)

    def check_invariants(self) -> None:
        """Assert, between two events, that the decisions lead from the committed to the tentative image."""
        version = self.committed.version
        for decided in (*self._in_commit, *self._waiting):
            assert decided.version == version + bool(decided.changes), (
                f"{len(decided.changes)} changes make version {decided.version} of {version}"
            )
            version = decided.version
        assert version == self.tentative.version, (
            f"decisions lead from {self.committed.version} to {version}, tentative is {self.tentative.version}"
        )
        self.tentative.check_invariants()
        assert self._in_commit or self._is_due or not self._waiting, (
            f"{len(self._waiting)} decisions wait for no commit"
        )


def refuse(undecided: Sequence[Decided]) -> None:
    """Answer decisions that cannot be committed."""
    for decided in undecided:
        _answer(decided, None)


def _partition_count(changes: Sequence[Change]) -> int:
    return sum(len(change.partitions) for change in changes if isinstance(change, TopicCreated | PartitionsChanged))


def ignore(_answer: object) -> None:
    """Ignore the reply: nobody requested this decision."""


def _answer(decided: Decided, answer: Any) -> None:
    try:
        decided.answered(answer)
    except Exception:
        # A failure to answer concerns one requester; the others of the same commit wait for their answers.
        log.exception("the controller cannot answer (%s)", decided.why.reason)
