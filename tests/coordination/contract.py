"""What any implementation of the Coordination port does, as tests.

A subclass gives a fixture `world`: a `StoreWorld` over one shared store. All
waiting is `world.until`, which runs the implementation's own way of calling
back until something is so.
"""

from collections.abc import Callable
from typing import Protocol

import pytest

from syncline.coordination.port import Batch, Coordination, Holder, Lease, LeaseLost
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    ClusterCreated,
    ConfigResource,
    ConfigsChanged,
    MetadataImage,
    ProducerIdsAllocated,
    ResourceType,
)
from syncline.model.metadata_json import encode_changes

RECORD = BrokerRecord(1, 2, "process", "host", 1, "host", 2)


class StoreWorld(Protocol):
    """One store, opened by several brokers."""

    def open(self) -> Coordination:
        """Return another broker's view of the store."""

    def until(self, condition: Callable[[], object]) -> None:
        """Let callbacks run until `condition` holds; fail if it does not in a few seconds."""

    def die(self, view: Coordination) -> None:
        """Let the broker of a view end as by SIGKILL, as far as one process can show it."""


class Campaigner:
    """A broker that stands for the lease."""

    def __init__(self, world: StoreWorld, broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.view = world.open()
        self.leases: list[Lease] = []
        self.view.campaign(Holder(broker_id, "host", 9000 + broker_id, 0), self.leases.append)

    @property
    def lease(self) -> Lease:
        """The lease won last."""
        return self.leases[-1]

    def wins(self) -> "Campaigner":
        """Wait until the lease is won."""
        self.world.until(lambda: self.leases)
        return self

    def commit(self, *batches: Batch, lease_epoch: int | None = None) -> Exception | None:
        """Commit under the lease, or another epoch, and return what went wrong."""
        outcome: list[Exception | None] = []
        epoch = self.lease.lease_epoch if lease_epoch is None else lease_epoch
        self.view.commit(batches, epoch, outcome.append)
        self.world.until(lambda: outcome)
        return outcome[0]


def batch(version: int, *changes: object) -> Batch:
    """Return a batch of these changes."""
    return Batch(version, encode_changes(changes))


class CoordinationContract:
    """The tests; `world` comes from the subclass."""

    @pytest.fixture
    def world(self) -> StoreWorld:
        """The store; the subclass knows which."""
        raise NotImplementedError

    def test_first_campaigner_wins_an_empty_store(self, world: StoreWorld) -> None:
        """The first lease has an epoch above zero and the empty image."""
        first = Campaigner(world, 1).wins()

        assert first.lease.lease_epoch > 0
        assert first.lease.image == MetadataImage()
        assert first.lease.silent is None
        assert first.view.holder() == (1, "host", 9001, first.lease.lease_epoch)

    def test_everybody_sees_the_holder(self, world: StoreWorld) -> None:
        """Another view of the store names the same holder."""
        first = Campaigner(world, 1).wins()

        assert world.open().holder() == first.view.holder()

    def test_only_one_holds_the_lease(self, world: StoreWorld) -> None:
        """A second campaigner waits while the first lives."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)

        assert first.commit(batch(1, ClusterCreated("c"))) is None
        assert second.leases == []

    def test_next_holder_gets_everything_that_was_committed(self, world: StoreWorld) -> None:
        """The state moves with the lease, whose epoch rises."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)
        resource = ConfigResource(ResourceType.TOPIC, "t")
        assert first.commit(batch(1, ClusterCreated("c")), batch(2, BrokerChanged(RECORD))) is None
        assert first.commit(batch(3, ConfigsChanged(resource, {"a": "1"}))) is None
        world.die(first.view)
        second.wins()

        assert second.lease.lease_epoch > first.lease.lease_epoch
        assert second.lease.image.version == 3
        assert second.lease.image.cluster_id == "c"
        assert second.lease.image.brokers == {1: RECORD}
        assert second.lease.image.topic_configs("t") == {"a": "1"}

    def test_lease_moves_on_when_it_is_given_up(self, world: StoreWorld) -> None:
        """Resigning hands the lease over at once, and the broker that resigned does not win it again."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)
        first.view.resign(first.lease.lease_epoch)
        second.wins()

        assert len(first.leases) == 1
        assert second.lease.silent is None

    def test_silent_holder_is_deposed_and_cannot_commit(self, world: StoreWorld) -> None:
        """No renewal for longer than the patience: the lease is taken over, and the old holder is fenced."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)
        assert first.commit(batch(1, ClusterCreated("c"))) is None
        second.view.observe(0, 9_000)
        second.view.observe(9_000, 9_000)
        early = list(second.leases)
        second.view.observe(9_001, 9_000)
        second.wins()

        assert early == []
        assert second.lease.silent == 1
        assert isinstance(first.commit(batch(2, ProducerIdsAllocated(5))), LeaseLost)
        assert not first.view.renew(first.lease.lease_epoch)
        assert second.commit(batch(2, ProducerIdsAllocated(7))) is None

    def test_renewal_keeps_the_lease(self, world: StoreWorld) -> None:
        """A holder that renews in time is not deposed, however long it holds."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)
        for now_ms in range(0, 30_000, 5_000):
            assert first.view.renew(first.lease.lease_epoch)
            second.view.observe(now_ms, 9_000)
        assert first.commit(batch(1, ClusterCreated("c"))) is None

        assert second.leases == []

    def test_commit_under_a_wrong_epoch_changes_nothing(self, world: StoreWorld) -> None:
        """The fence holds for an epoch that never was, too."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)

        failure = first.commit(batch(1, ClusterCreated("c")), lease_epoch=first.lease.lease_epoch + 1)
        world.die(first.view)

        assert isinstance(failure, LeaseLost)
        assert second.wins().lease.image.version == 0

    def test_commits_keep_their_order(self, world: StoreWorld) -> None:
        """Commits asked one after the other without waiting are answered in that order."""
        first = Campaigner(world, 1).wins()
        answered: list[int] = []
        for version in range(1, 21):
            first.view.commit(
                [batch(version, ProducerIdsAllocated(version))],
                first.lease.lease_epoch,
                lambda _, version=version: answered.append(version),
            )
        world.until(lambda: len(answered) == 20)

        assert answered == list(range(1, 21))

    def test_snapshot_stands_for_the_batches_before_it(self, world: StoreWorld) -> None:
        """After compaction the next holder still gets the same state."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)
        image = MetadataImage()
        for version in range(1, 6):
            change = ProducerIdsAllocated(version)
            image = image.apply([change], version)
            assert first.commit(batch(version, change)) is None
        first.view.compact(image, first.lease.lease_epoch)
        assert first.commit(batch(6, ClusterCreated("c"))) is None
        world.die(first.view)
        second.wins()

        assert (second.lease.image.version, second.lease.image.next_producer_id) == (6, 5)

    def test_nothing_is_called_after_close(self, world: StoreWorld) -> None:
        """A closed view is silent."""
        first = Campaigner(world, 1).wins()
        second = Campaigner(world, 2)
        second.view.close()
        world.die(first.view)
        third = Campaigner(world, 3).wins()

        assert third.leases
        assert second.leases == []
