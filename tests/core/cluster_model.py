"""Three replicas of one partition under random events, with every decision made by the core.

Messages are delivered late, in any order, twice or never; brokers restart, are fenced and come back; metadata
reaches each broker by itself, with versions skipped. Logs survive a restart: what a power cut takes away is the
storage layer's test. After each event the invariants are checked (I1 to I7 and I9), against the ghost list of
what was ever committed.
"""

from dataclasses import dataclass, field, replace
from random import Random

from syncline.core.replication.effects import Effects, IsrAnswer, ProposeIsr
from syncline.core.replication.follower import FetchAsk
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.model.errors import ErrorCode

from .replicas import FetchAnswer, MemoryLog, Replica

BROKERS = (1, 2, 3)
# Brokers return sooner than they leave: otherwise no replica is ever in sync.
RARELY = 0.25


@dataclass(frozen=True)
class Metadata:
    """One version of the controller's metadata."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    standings: dict[int, BrokerStanding]


@dataclass
class Host:
    """One broker process: its replica, and how much of the metadata it knows."""

    replica: Replica
    brokers: KnownBrokers
    broker_epoch: int
    version: int = 0
    is_up: bool = True
    waits_for: FetchAsk | None = None


@dataclass
class Request:
    """A fetch on its way to a leader."""

    sender: int
    receiver: int
    ask: FetchAsk
    broker_epoch: int


@dataclass
class Answer:
    """A fetch answer on its way back."""

    receiver: int
    sender: int
    sent: FetchAsk
    answer: FetchAnswer
    broker_epoch: int


@dataclass
class Cluster:
    """The whole model; `step` does one random thing."""

    rng: Random
    min_isr: int
    now: int = 0
    written_count: int = 0
    hosts: dict[int, Host] = field(default_factory=dict)
    versions: list[Metadata] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    proposals: list[tuple[int, ProposeIsr]] = field(default_factory=list)
    verdicts: list[tuple[int, ProposeIsr, IsrAnswer]] = field(default_factory=list)
    committed: list[tuple[int, str]] = field(default_factory=list)
    waiting: list[tuple[int, int, int]] = field(default_factory=list)
    acknowledged_count: int = 0
    marks: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with broker 1 leading epoch 0."""
        standings = {broker: BrokerStanding(broker) for broker in BROKERS}
        self.versions.append(Metadata(1, BROKERS, 0, 0, standings))
        for broker in BROKERS:
            self.hosts[broker] = Host(Replica(broker, MemoryLog()), KnownBrokers(standings), broker)
            self.act_on_metadata(broker)

    @property
    def current(self) -> Metadata:
        """The controller's current metadata."""
        return self.versions[-1]

    def publish(self, **changes: object) -> None:
        """Let the controller change the partition, or a broker's standing."""
        self.versions.append(replace(self.current, **changes))

    def stand(self, broker: int, standing: BrokerStanding) -> dict[int, BrokerStanding]:
        """Return all standings with one replaced."""
        return {**self.current.standings, broker: standing}

    def fence(self, broker: int) -> None:
        """Fence a broker: out of the ISR unless it is the last, and out of leadership."""
        known = self.current
        standings = self.stand(broker, known.standings[broker]._replace(is_fenced=True))
        isr = tuple(one for one in known.isr if one != broker) or known.isr
        if known.leader != broker:
            self.publish(standings=standings, isr=isr, partition_epoch=known.partition_epoch + (isr != known.isr))
            return
        leader = next((one for one in BROKERS if one in isr and not standings[one].is_fenced), -1)
        self.publish(
            standings=standings,
            isr=isr,
            leader=leader,
            leader_epoch=known.leader_epoch + 1,
            partition_epoch=known.partition_epoch + 1,
        )

    def unfence(self, broker: int) -> None:
        """Let a broker serve again; it leads if the leaderless partition waited for it."""
        known = self.current
        standings = self.stand(broker, known.standings[broker]._replace(is_fenced=False))
        if known.leader == -1 and broker in known.isr:
            self.publish(
                standings=standings,
                leader=broker,
                leader_epoch=known.leader_epoch + 1,
                partition_epoch=known.partition_epoch + 1,
            )
        else:
            self.publish(standings=standings)

    def judge(self, sender: int, proposal: ProposeIsr) -> IsrAnswer:
        """Answer an AlterPartition as the controller."""
        known = self.current
        if proposal.leader_epoch != known.leader_epoch or sender != known.leader:
            return IsrAnswer(ErrorCode.FENCED_LEADER_EPOCH)
        if proposal.partition_epoch != known.partition_epoch:
            return IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION)
        for member in proposal.isr:
            standing = known.standings[member.broker_id]
            if standing.is_fenced or member.broker_epoch not in (-1, standing.broker_epoch):
                return IsrAnswer(ErrorCode.INELIGIBLE_REPLICA)
        self.publish(isr=proposal.broker_ids, partition_epoch=known.partition_epoch + 1)
        return IsrAnswer(ErrorCode.NONE, known.leader_epoch, known.partition_epoch + 1, proposal.broker_ids)

    def act_on_metadata(self, broker: int) -> None:
        """Apply the metadata version that reached a broker."""
        host = self.hosts[broker]
        known = self.versions[host.version]
        host.brokers.replace(known.standings)
        replica = host.replica
        if known.leader != broker:
            replica.stop_leading()
            if known.leader != -1:
                replica.follow(known.leader_epoch)
            return
        if replica.leader is not None:
            if known.leader_epoch > replica.leader.leader_epoch:
                replica.log.epochs.assign(known.leader_epoch, replica.log.log_end)
            effects = replica.leader.metadata_changed(
                replicas=BROKERS,
                isr=known.isr,
                leader_epoch=known.leader_epoch,
                partition_epoch=known.partition_epoch,
                now_ms=self.now,
            )
        else:
            # A broker that learns late of its election may have been replaced since.
            if known.leader_epoch == self.current.leader_epoch:
                self.check_complete(replica)
            effects = replica.lead(
                known.leader_epoch,
                known.isr,
                brokers=host.brokers,
                replicas=BROKERS,
                partition_epoch=known.partition_epoch,
                now=self.now,
                min_isr=self.min_isr,
            )
        assert self.leaders.setdefault(known.leader_epoch, broker) == broker, "two leaders in one epoch (I6)"
        self.take_effects(broker, effects)

    def take_effects(self, broker: int, effects: Effects) -> None:
        """Send what a leader proposes."""
        self.proposals += [(broker, effect) for effect in effects if isinstance(effect, ProposeIsr)]

    def step(self) -> None:
        """Do one random thing, then check."""
        actions = (
            (self.write, 6),
            (self.ask, 15),
            (self.serve, 15),
            (self.take, 15),
            (self.tick, 3),
            (self.deliver_proposal, 4),
            (self.deliver_verdict, 4),
            (self.hear, 8),
            (self.flap, 4),
            (self.bounce, 2),
            (self.pass_time, 1),
        )
        (action,) = self.rng.choices([action for action, _ in actions], [weight for _, weight in actions])
        action(self.rng.choice(BROKERS))
        self.check()

    def write(self, broker: int) -> None:
        """A client writes to a broker that believes that it leads."""
        host = self.hosts[broker]
        leader = host.replica.leader
        if host.is_up and leader is not None and not leader.check_append(-1):
            self.written_count += 1
            effects = host.replica.write(f"w{self.written_count}", self.now)
            self.waiting.append((broker, leader.leader_epoch, leader.log_end))
            self.take_effects(broker, effects)

    def ask(self, broker: int) -> None:
        """A follower sends its one fetch."""
        host = self.hosts[broker]
        follower = host.replica.follower
        leader = self.versions[host.version].leader
        if (
            host.is_up
            and follower is not None
            and host.waits_for is None
            and leader not in (-1, broker)
            and follower.is_ready(self.now)
        ):
            host.waits_for = follower.ask()
            self.requests.append(Request(broker, leader, host.waits_for, host.broker_epoch))

    def serve(self, _: int) -> None:
        """A fetch reaches its leader, or is lost."""
        if not self.requests:
            return
        request = self.requests.pop(self.rng.randrange(len(self.requests)))
        host = self.hosts[request.receiver]
        if not host.is_up or self.rng.random() < 0.05:
            self.forget_wait(request.sender, request.ask)
            return
        answer, effects = host.replica.serve(
            request.sender, request.ask, self.now, broker_epoch=request.broker_epoch, count=self.rng.randint(1, 3)
        )
        self.take_effects(request.receiver, effects)
        self.answers.append(Answer(request.sender, request.receiver, request.ask, answer, request.broker_epoch))

    def take(self, _: int) -> None:
        """An answer reaches its follower, or is lost with its connection."""
        if not self.answers:
            return
        message = self.answers.pop(self.rng.randrange(len(self.answers)))
        host = self.hosts[message.receiver]
        self.forget_wait(message.receiver, message.sent)
        if not host.is_up or host.broker_epoch != message.broker_epoch or self.rng.random() < 0.1:
            return
        host.replica.take(message.sent, message.answer, self.now)
        host.replica.resolve_out_of_range(self.hosts[message.sender].replica, self.now)

    def forget_wait(self, broker: int, ask: FetchAsk) -> None:
        """Let a follower ask again."""
        if self.hosts[broker].waits_for == ask:
            self.hosts[broker].waits_for = None

    def tick(self, broker: int) -> None:
        """A leader judges its followers."""
        host = self.hosts[broker]
        if host.is_up and host.replica.leader is not None:
            self.take_effects(broker, host.replica.leader.tick(self.now))

    def deliver_proposal(self, _: int) -> None:
        """A proposal reaches the controller, perhaps twice; its answer may be lost."""
        if not self.proposals:
            return
        sender, proposal = self.rng.choice(self.proposals)
        answer = self.judge(sender, proposal)
        # A sender that takes an answer has no other copy under way. A copy that outlives the answer to a later
        # one is harmless unless that answer made the leader revert: the transport must exclude it.
        if answer.error is ErrorCode.INELIGIBLE_REPLICA or self.rng.random() < 0.8:
            self.proposals.remove((sender, proposal))
        self.verdicts.append((sender, proposal, answer))

    def deliver_verdict(self, _: int) -> None:
        """The controller's answer reaches the leader; after a lost one the leader sends the proposal again."""
        if not self.verdicts:
            return
        sender, proposal, answer = self.verdicts.pop(self.rng.randrange(len(self.verdicts)))
        leader = self.hosts[sender].replica.leader
        if not self.hosts[sender].is_up or leader is None:
            return
        if self.rng.random() < 0.2:
            self.proposals.append((sender, proposal))
            return
        self.take_effects(sender, leader.alter_partition_answered(proposal, answer, self.now))

    def hear(self, broker: int) -> None:
        """A broker gets newer metadata, perhaps several versions at once."""
        host = self.hosts[broker]
        if host.is_up and host.version < len(self.versions) - 1:
            host.version = self.rng.randint(host.version + 1, len(self.versions) - 1)
            self.act_on_metadata(broker)

    def flap(self, broker: int) -> None:
        """The controller fences a broker, or lets a living one serve again."""
        if not self.current.standings[broker].is_fenced:
            if self.rng.random() < RARELY:
                self.fence(broker)
        elif (
            self.hosts[broker].is_up and self.hosts[broker].broker_epoch == self.current.standings[broker].broker_epoch
        ):
            self.unfence(broker)

    def bounce(self, broker: int) -> None:
        """A process stops, or starts again: registered anew, fenced, and up to date with metadata."""
        host = self.hosts[broker]
        if host.is_up:
            if self.rng.random() > RARELY:
                return
            host.is_up = False
            host.replica.restart(checkpoint=self.rng.randint(0, host.replica.hw))
            return
        host.is_up, host.waits_for = True, None
        host.broker_epoch = max(standing.broker_epoch for standing in self.current.standings.values()) + 1
        if not self.current.standings[broker].is_fenced:
            self.fence(broker)
        self.publish(standings=self.stand(broker, BrokerStanding(host.broker_epoch, is_fenced=True)))
        host.version = len(self.versions) - 1
        self.act_on_metadata(broker)

    def pass_time(self, _: int) -> None:
        """Let some time go by."""
        self.now += self.rng.choice((1, 50, 500, 4000))

    def heal(self) -> None:
        """Bring all brokers back, deliver everything, and let followers catch up."""
        for broker in BROKERS:
            if not self.hosts[broker].is_up:
                self.bounce(broker)
        self.requests.clear()
        self.answers.clear()
        self.proposals.clear()
        self.verdicts.clear()
        for broker in BROKERS:
            if self.current.standings[broker].is_fenced:
                self.unfence(broker)
        # What was pending was lost with its messages; a new leader epoch makes all start from records.
        self.fence(self.current.leader)
        self.unfence(next(broker for broker in BROKERS if self.current.standings[broker].is_fenced))
        for _ in range(60):
            self.now += 1100
            for broker in BROKERS:
                host = self.hosts[broker]
                host.waits_for = None
                while host.version < len(self.versions) - 1:
                    self.hear(broker)
                self.ask(broker)
                self.tick(broker)
            for action, queue in (
                (self.serve, self.requests),
                (self.take, self.answers),
                (self.deliver_proposal, self.proposals),
                (self.deliver_verdict, self.verdicts),
            ):
                while queue:
                    action(1)
                    self.check()

    def check_complete(self, replica: Replica) -> None:
        """A leader elected cleanly holds everything ever committed (I2)."""
        assert replica.log.records[: len(self.committed)] == self.committed, "an elected leader lacks committed records"

    def check(self) -> None:
        """Check all invariants."""
        for broker, host in self.hosts.items():
            replica = host.replica
            replica.log.epochs.check_invariants()
            if replica.follower is not None:
                replica.follower.check_invariants()
            leader = replica.leader
            if leader is None:
                continue
            leader.check_invariants()
            key = (broker, leader.leader_epoch)
            before, was_under_min = self.marks.get(key, (leader.high_watermark, False))
            assert before <= leader.high_watermark, "the mark moved back (I1)"
            is_under_min = leader.is_under_min_isr
            if was_under_min and is_under_min:
                assert before == leader.high_watermark, f"the mark moved with {leader.isr} in sync"
            self.marks[key] = (leader.high_watermark, is_under_min)
            below = replica.log.records[: leader.high_watermark]
            shared = min(len(below), len(self.committed))
            assert below[:shared] == self.committed[:shared], "what was committed has changed"
            if len(below) > len(self.committed):
                self.committed = below
            if leader.leader_epoch == self.current.leader_epoch:
                assert set(self.current.isr) <= leader.in_sync.maximal, "the mark ignores a member of the ISR (I5)"
        self.check_acknowledged()
        self.check_logs_match()

    def check_acknowledged(self) -> None:
        """Success of acks=all means that every member of the maximal ISR has the record (I7)."""
        still = []
        for broker, epoch, required in self.waiting:
            replica = self.hosts[broker].replica
            if replica.leader is None or replica.leader.leader_epoch != epoch:
                continue
            outcome = replica.leader.acknowledgement(required)
            if outcome is None:
                still.append((broker, epoch, required))
            elif outcome is ErrorCode.NONE:
                self.acknowledged_count += 1
                for member in replica.leader.in_sync.maximal:
                    theirs = self.hosts[member].replica.log.records[:required]
                    assert theirs == replica.log.records[:required], f"{member} lacks what was acknowledged (I7)"
        self.waiting = still

    def check_logs_match(self) -> None:
        """Logs that share (offset, epoch) are equal up to there (I3)."""
        logs = [host.replica.log.records for host in self.hosts.values()]
        for index, left in enumerate(logs):
            for right in logs[index + 1 :]:
                for offset in range(min(len(left), len(right)) - 1, -1, -1):
                    if left[offset][0] == right[offset][0]:
                        assert left[: offset + 1] == right[: offset + 1], f"logs differ below {offset + 1} (I3)"
                        break
