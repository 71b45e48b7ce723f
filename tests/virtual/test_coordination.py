"""The store in memory: commits, leases, and how both are lost."""

import asyncio
import random

import pytest

from syncline.coordination.port import Batch, Holder, LeaseLost
from syncline.model.metadata import ClusterCreated, ProducerIdsAllocated
from syncline.model.metadata_json import encode_changes
from syncline.virtual.coordination import ClusterStore, SimCoordination
from syncline.virtual.determinism.trace import Trace
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import Process

FIRST = Batch(1, encode_changes([ClusterCreated("c")]))
SECOND = Batch(2, encode_changes([ProducerIdsAllocated(1000)]))


class Candidates:
    """Three brokers that stand for the lease."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.store = ClusterStore(self.loop, random.Random(1), Trace())
        self.wins: list[tuple[int, int, int | None]] = []
        self.processes = {number: Process(f"b{number}") for number in (1, 2, 3)}
        self.views = {number: self.processes[number].context.run(SimCoordination, self.store) for number in (1, 2, 3)}

    def campaign(self, number: int) -> None:
        """Let a broker stand."""
        self.views[number].campaign(
            Holder(number, f"b{number}", 9093, 0),
            lambda lease: self.wins.append((number, lease.lease_epoch, lease.silent)),
        )

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def commit(self, number: int, *batches: Batch, epoch: int | None = None) -> list[Exception | None]:
        """Commit, and return the list that gets the answer."""
        answers: list[Exception | None] = []
        epoch = self.store.lease_epoch if epoch is None else epoch
        self.processes[number].context.run(self.views[number].commit, batches, epoch, answers.append)
        return answers


@pytest.fixture
def three():
    """Return three candidates, the first of which has won."""
    it = Candidates()
    it.campaign(1)
    it.later(0.1)
    it.campaign(2)
    it.campaign(3)
    it.later(0.1)
    yield it
    it.loop.close()


def test_one_candidate_wins_and_its_commits_make_the_image(three) -> None:
    """Versions follow each other."""
    answers = three.commit(1, FIRST, SECOND)
    three.later(0.1)

    assert [number for number, _, _ in three.wins] == [1]
    assert answers == [None]
    assert (three.store.image.version, three.store.image.next_producer_id) == (2, 1000)
    assert three.store.holder.broker_id == 1


def test_lease_of_a_dead_holder_goes_to_another_at_once(three) -> None:
    """The store notices the death by itself."""
    three.processes[1].die()
    three.store.process_died(three.processes[1])
    three.later(0.1)

    assert three.wins[-1][0] in (2, 3)
    assert three.wins[-1][1] > three.wins[0][1]


def test_commit_of_a_killed_holder_may_be_written_without_its_knowing(three) -> None:
    """A process that dies between the write and the answer leaves the write."""
    outcomes = set()
    for cut_ns in range(0, 6_000_000, 250_000):
        it = Candidates()
        it.campaign(1)
        it.later(0.1)
        answers = it.commit(1, FIRST)
        it.loop.call_at_ns(it.loop.now_ns + cut_ns, it.processes[1].die)
        it.later(0.1)
        outcomes.add((it.store.image.version, len(answers)))
        it.loop.close()

    assert outcomes == {(0, 0), (1, 0), (1, 1)}


def test_lost_lease_fences_the_old_holder(three) -> None:
    """The store does not call it; its next commit changes nothing."""
    epoch = three.store.lease_epoch
    three.store.lose_lease()
    answers = three.commit(1, FIRST, epoch=epoch)
    three.later(0.1)

    assert isinstance(answers[0], LeaseLost)
    assert three.store.image.version == 0
    assert three.wins[-1][0] in (2, 3)
    assert not three.views[1].renew(epoch)


def test_silent_holder_is_deposed_after_the_patience(three) -> None:
    """A candidate that saw no renewal for long enough takes over, and learns whom it deposed."""
    three.views[2].observe(0, 1000)
    three.views[2].observe(900, 1000)
    three.views[1].renew(three.store.lease_epoch)
    three.views[2].observe(1800, 1000)
    three.views[2].observe(2700, 1000)
    before = len(three.wins)
    three.views[2].observe(2900, 1000)
    three.later(0.1)

    assert before == 1
    assert three.wins[-1][0] == 2
    assert three.wins[-1][2] == 1


def test_changes_of_one_commit_are_reported_one_by_one(three: Candidates) -> None:
    """A member joins an in-sync set and leads at once: S4 holds, because it was a member when it was elected."""
    reported: list[tuple[int, int]] = []
    three.store.on_commit = lambda before, after: reported.append((before.next_producer_id, after.next_producer_id))
    changes = [ClusterCreated("c"), ProducerIdsAllocated(1000), ProducerIdsAllocated(2000)]
    three.commit(1, Batch(1, encode_changes(changes)))
    three.later(0.1)

    assert reported == [(0, 0), (0, 1000), (1000, 2000)]
