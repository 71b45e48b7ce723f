"""A replica that is elected cleanly, or as the last leader, has every committed record.

The controller's rules are run against a model of the replicas: each knows how
many records it has. Brokers are killed (keeping what they wrote), come back,
are fenced while alive, and leave and join the ISR in random order; a leader
commits only what all of its ISR has, and nothing below the minimum.
"""

import itertools
import random

import pytest

from syncline.core.cluster.alter_partition import IsrRequest, alter_partition
from syncline.core.cluster.reassignments import Wanted, alter_reassignments
from syncline.model.broker_config import BrokerConfig
from tests.core.controller_world import ELR, NO_ELR, TOPIC_ID, World, image

BROKERS = (1, 2, 3)
STEPS = ("produce", "produce", "kill", "restart", "fence", "heartbeat", "join", "join", "move", "cancel")


class Replicas:
    """What each replica has, and how much of it is committed."""

    def __init__(self, world: World, min_isr: int, brokers: tuple[int, ...] = BROKERS) -> None:
        self.world = world
        self.min_isr = min_isr
        self.records = dict.fromkeys(brokers, 0)
        self.committed = 0
        self.running = set(brokers)
        self.incarnations = itertools.count()

    def check(self) -> None:
        """Assert that the leader has everything that is committed."""
        leader = self.world.t0.leader
        assert leader == -1 or self.records[leader] >= self.committed, f"{self.world.t0}: {self.records}"

    def produce(self) -> None:
        """Write one record to the leader and to the running ISR members."""
        record = self.world.t0
        if record.leader not in self.running:
            return
        self.records[record.leader] = max(self.records[record.leader], self.committed) + 1
        for member in record.isr:
            if member in self.running:
                self.records[member] = self.records[record.leader]
        minimum = min(self.min_isr, record.complete_size)
        if len(record.isr) >= minimum and all(member in self.running for member in record.isr):
            self.committed = self.records[record.leader]

    def propose(self, isr: tuple[int, ...]) -> None:
        """Let the leader propose an ISR; a replica that joins has caught up first."""
        record = self.world.t0
        if record.leader not in self.running or record.leader not in isr:
            return
        for member in isr:
            if member not in record.isr:
                if member not in self.running:
                    return
                self.records[member] = self.records[record.leader]
        request = IsrRequest(
            TOPIC_ID, 0, record.leader_epoch, record.partition_epoch, tuple((each, -1) for each in isr)
        )
        epoch = self.world.image.brokers[record.leader].broker_epoch
        self.world.take(alter_partition(self.world.image, record.leader, epoch, [request], ELR))

    def move(self, target: tuple[int, ...]) -> None:
        """Request other replicas, none to cancel; what is no replica any more loses its log."""
        wanted = [Wanted("t", 0, target or None)]
        self.world.take(alter_reassignments(self.world.image, wanted, self.world.settings))
        self.drop_strays()

    def drop_strays(self) -> None:
        """Delete what belongs to no replica; a broker that is down does so when it comes back."""
        for broker in self.records:
            if broker not in self.world.t0.replicas:
                self.records[broker] = 0

    def kill(self, broker: int) -> None:
        """End a process; its log stays."""
        self.running.discard(broker)

    def restart(self, broker: int) -> None:
        """Start a process again, unless it runs."""
        if broker not in self.running:
            self.world.restart(broker, f"again-{next(self.incarnations)}")
            self.running.add(broker)


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("seed", range(150))
def test_leaders_have_what_is_committed_under_random_faults(min_isr: int, seed: int) -> None:
    """Random kills, restarts, fencings and ISR changes never elect a leader that lacks a committed record."""
    dice = random.Random(seed)
    world = World(image(configs={"min.insync.replicas": str(min_isr)}))
    replicas = Replicas(world, min_isr)

    for _ in range(60):
        broker = dice.choice(BROKERS)
        step = dice.choice(("produce", "produce", "kill", "restart", "fence", "heartbeat", "propose"))
        if step == "produce":
            replicas.produce()
        elif step == "kill":
            replicas.kill(broker)
        elif step == "restart":
            replicas.restart(broker)
        elif step == "fence":
            world.fence(broker)
        elif step == "heartbeat" and broker in replicas.running:
            world.heartbeat(broker)
        elif step == "propose":
            replicas.propose(tuple(each for each in BROKERS if dice.random() < 0.6))
        replicas.check()
    for broker in BROKERS:
        replicas.restart(broker)
        world.heartbeat(broker)
        replicas.check()

    assert world.t0.leader != -1


@pytest.mark.parametrize("settings", [ELR, NO_ELR], ids=["elr", "no-elr"])
@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("seed", range(100))
def test_t55_leaders_have_what_is_committed_under_moves_and_faults(
    min_isr: int, seed: int, settings: BrokerConfig
) -> None:
    """The same with moves, other moves before they are complete, and cancellations, over five brokers."""
    dice = random.Random(seed)
    brokers = (1, 2, 3, 4, 5)
    world = World(image(active=brokers, configs={"min.insync.replicas": str(min_isr)}), settings)
    replicas = Replicas(world, min_isr, brokers)

    for _ in range(80):
        broker = dice.choice(brokers)
        step = dice.choice(STEPS)
        if step == "produce":
            replicas.produce()
        elif step == "kill" and settings.eligible_leader_replicas_enable:
            replicas.kill(broker)
        elif step == "restart":
            replicas.restart(broker)
        elif step == "fence":
            world.fence(broker)
        elif step == "heartbeat" and broker in replicas.running:
            world.heartbeat(broker)
        elif step == "join":
            replicas.propose(tuple({*world.t0.isr, *(each for each in world.t0.replicas if dice.random() < 0.6)}))
            replicas.drop_strays()
        elif step == "move":
            replicas.move(tuple(dice.sample(brokers, dice.randint(1, 3))))
        elif step == "cancel":
            replicas.move(())
        replicas.check()
    for broker in brokers:
        replicas.restart(broker)
        world.heartbeat(broker)
        replicas.check()
    replicas.propose(world.t0.replicas)

    assert world.t0.leader != -1
    assert not world.t0.is_reassigned, "every replica is in sync, and the move is not over"


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("found_dead", [(), (2,), (2, 3), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("order", list(itertools.permutations(BROKERS)), ids=str)
def test_total_outage_ends_with_a_leader_that_has_everything(
    min_isr: int, found_dead: tuple[int, ...], order: tuple[int, ...]
) -> None:
    """All brokers are killed with a full ISR; in whatever order they are found dead and return, nothing is lost."""
    world = World(image(configs={"min.insync.replicas": str(min_isr)}))
    replicas = Replicas(world, min_isr)
    replicas.produce()
    for broker in BROKERS:
        replicas.kill(broker)

    for broker in found_dead:
        if broker != order[0]:
            world.fence(broker)
    for broker in order:
        replicas.restart(broker)
        replicas.check()

    assert world.t0.leader != -1
    assert replicas.records[world.t0.leader] == replicas.committed
