"""The stage of a trace: brokers with real leaders and followers, a real controller, and a client; no socket, no clock.

What the core decides is performed at once, but nothing travels by itself: proposals, metadata and fetches move when a
command says so. That is what makes the order of events, the subject of most histories, visible.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from syncline.core.cluster.alter_partition import IsrRequest, alter_partition
from syncline.core.replication.effects import Effects, IsrAnswer, IsrChange, ProposeIsr
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import TimeLag
from syncline.core.replication.leader import PartitionSettings
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.truncation import TruncationMode
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.model.metadata import PartitionRecord
from tests.core import controller_world
from tests.core.replicas import Replica

from . import words

LAG_MS = 10_000
WATCH_INTERVAL_MS = 250


@dataclass
class Produce:
    """A produce with acks=all that waits at its leader until everything below `required` is committed."""

    values: str
    required: int


@dataclass
class Host:
    """One broker process: its replica, and the metadata that it has applied."""

    replica: Replica
    brokers: KnownBrokers
    broker_epoch: int
    record: PartitionRecord
    is_up: bool = True
    proposals: list[ProposeIsr] = field(default_factory=list)
    waiting: list[Produce] = field(default_factory=list)
    fetches: PendingFetches = field(default_factory=PendingFetches)


class Stage:
    """Three brokers unless `replicas` says otherwise; broker 1 leads in epoch 0. Each command is a public method."""

    def __init__(self, say: Callable[[str], None], **options: str) -> None:
        """Take the options of the command `cluster`."""
        replicas = _ids(options.pop("replicas", "1,2,3"))
        self._min_isr = int(options.pop("min-isr", "1"))
        mode = TruncationMode(options.pop("truncation", "epoch-fetch"))
        configs = {"min.insync.replicas": str(self._min_isr)}
        if options.pop("unclean", "off") == "on":
            configs["unclean.leader.election.enable"] = "true"
        controller = BrokerConfig(
            eligible_leader_replicas_enable=options.pop("elr", "on") == "on",
            quick_bounce_enable=options.pop("bounce", "off") == "on",
        )
        relinquishes = options.pop("relinquish", "off") == "on"
        values = options.pop("log", "").replace(",", " ").split()
        assert not options, f"unknown options: {options}"
        self._slow_reads = SlowReadRules(relinquishes=True) if relinquishes else None
        record = controller_world.partition(leader_epoch=0, partition_epoch=0, replicas=replicas, isr=replicas)
        image = controller_world.image(record, active=replicas, configs=configs)
        self._controller = controller_world.World(image, controller)
        self._say = say
        self._now_ms = 0
        self._incarnations = count(1)
        self._acknowledged: list[str] = []
        self._hosts = {
            each: Host(
                Replica(each, mode=mode), KnownBrokers(), self._controller.image.brokers[each].broker_epoch, record
            )
            for each in replicas
        }
        self._begin(values)

    # Time.

    def clock(self, now_ms: str) -> None:
        """Let time pass until `now_ms`."""
        assert int(now_ms) >= self._now_ms, f"time goes back to {now_ms}"
        self._now_ms = self._controller.now_ms = int(now_ms)

    # The client.

    def produce(self, broker: str, *values: str, acks: str = "all") -> None:
        """Let a client write records to a broker."""
        host = self._host(broker)
        leader = host.replica.leader
        named = " ".join(values)
        if not host.is_up or leader is None:
            return self._tell("client", f"{named} refused by {broker}: NOT_LEADER_OR_FOLLOWER")
        error = leader.check_append(NONE if acks == "all" else int(acks))
        if error:
            return self._tell("client", f"{named} refused by {broker}: {error.name}")
        effects: Effects = ()
        for value in values:
            effects += host.replica.write(value, self._now_ms)
        self._tell(broker, f"appends; log {self._log_of(host)}")
        if acks == "all":
            host.waiting.append(Produce(named, leader.log_end))
        else:
            self._acknowledge(named)
        return self._performed(int(broker), effects)

    # Followers.

    def fetch(self, *brokers: str) -> None:
        """Let followers fetch, one after the other; `slow` at the end: the leader's read does not end."""
        is_slow = brokers[-1] == "slow"
        for broker in brokers[:-1] if is_slow else brokers:
            self._fetch(broker, is_slow=is_slow)

    def _fetch(self, broker: str, *, is_slow: bool) -> None:
        host = self._host(broker)
        follower = host.replica.follower
        assert follower is not None, f"{broker} follows no leader"
        leader_id = host.record.leader
        leader = self._hosts[leader_id]
        ask = follower.ask()
        tail = "" if ask.last_fetched_epoch == NONE else f" after epoch {ask.last_fetched_epoch}"
        self._tell(broker, f"fetches from {leader_id} at {ask.fetch_offset}{tail}, leader epoch {ask.leader_epoch}")
        if not leader.is_up:
            return self._tell(broker, "gets no answer")
        if is_slow:
            assert leader.replica.leader is not None
            request = leader.fetches.open(int(broker), host.broker_epoch, self._now_ms)
            leader.replica.leader.slow_leader.fetch_pends(int(broker), ask.fetch_offset, request)
            return self._tell(str(leader_id), f"cannot serve {broker} at once: its disk is slow")
        answer, effects = leader.replica.serve(
            int(broker), ask, self._now_ms, broker_epoch=host.broker_epoch, count=100
        )
        self._performed(leader_id, effects)
        self._tell(broker, f"gets {words.answer(answer)}")
        before = len(host.replica.effects)
        host.replica.take(ask, answer, self._now_ms)
        host.replica.resolve_out_of_range(leader.replica, self._now_ms)
        return self._follower_did(broker, host, before)

    # Leaders.

    def tick(self, broker: str) -> None:
        """Let a leader judge its followers."""
        leader = self._host(broker).replica.leader
        assert leader is not None, f"{broker} does not lead"
        effects = leader.tick(self._now_ms)
        self._performed(int(broker), effects)
        if not effects:
            self._tell(broker, "changes nothing")

    def watch(self, broker: str) -> None:
        """Let a leader look at the fetches that wait for its slow disk."""
        effects: Effects = ()
        for entry in self._host(broker).fetches.watch(self._now_ms, WATCH_INTERVAL_MS):
            effects += entry.server.relinquish(entry, self._now_ms)
        self._performed(int(broker), effects)
        if not effects:
            self._tell(broker, "changes nothing")

    def deliver(self, broker: str, how: str = "") -> None:
        """Take a leader's proposal to the controller and the answer back; `lost`: the answer does not arrive."""
        host = self._host(broker)
        proposal = host.proposals.pop(0)
        request = IsrRequest(
            controller_world.TOPIC_ID,
            0,
            proposal.leader_epoch,
            proposal.partition_epoch,
            tuple((member.broker_id, member.broker_epoch) for member in proposal.isr),
            relinquish=proposal.kind is IsrChange.RELINQUISH,
        )
        controller = self._controller
        decision = alter_partition(
            controller.image, int(broker), host.broker_epoch, [request], controller.settings, now_ms=self._now_ms
        )
        if decision.changes:
            controller.take(decision)
            self._record()
        (result,) = decision.answer.results
        if result.error is not ErrorCode.NONE:
            self._tell("controller", f"answers {broker}: {result.error.name}")
        if how == "lost":
            host.proposals.append(proposal)
            return self._tell(broker, "the answer is lost; it will ask again")
        leader, state = host.replica.leader, result.state
        assert leader is not None
        answer = (
            IsrAnswer(result.error)
            if state is None
            else IsrAnswer(result.error, state.leader_epoch, state.partition_epoch, state.isr)
        )
        return self._performed(int(broker), leader.alter_partition_answered(proposal, answer, self._now_ms))

    # The controller.

    def fence(self, broker: str) -> None:
        """Let the controller miss a broker's heartbeats, whether it is dead or not."""
        self._controller.fence(int(broker))
        self._record()

    def unfence(self, broker: str) -> None:
        """Let the controller receive heartbeats of a broker again."""
        self._controller.heartbeat(int(broker))
        self._record()

    def metadata(self, *brokers: str) -> None:
        """Let brokers apply what the controller has committed."""
        for broker in self._hosts if brokers == ("all",) else map(int, brokers):
            if self._hosts[broker].is_up:
                self._apply(broker)

    # Processes.

    def stop(self, broker: str) -> None:
        """End a broker process cleanly; the controller notices by `fence`."""
        self._end(broker, "stops", 0)

    def kill(self, broker: str, *, loses: str = "0") -> None:
        """End a broker process; a power cut `loses` so many records of its log's end."""
        self._end(broker, "dies", int(loses))

    def _end(self, broker: str, verb: str, loses_count: int) -> None:
        host = self._host(broker)
        host.is_up = False
        self._fail_waiting(host, "the connection ends")
        host.proposals.clear()
        host.replica.log.truncate(host.replica.log.log_end - loses_count)
        host.replica.restart()
        self._tell(broker, f"{verb}; log {self._log_of(host)}")

    def start(self, broker: str, how: str = "") -> None:
        """Start a broker process again; `clean`: it proves that the one before it stopped cleanly."""
        host = self._host(broker)
        host.is_up = True
        self._controller.register(int(broker), f"again-{next(self._incarnations)}", clean=how == "clean")
        self._controller.heartbeat(int(broker))
        host.broker_epoch = self._controller.image.brokers[int(broker)].broker_epoch
        self._tell(broker, f"registers as broker epoch {host.broker_epoch}")
        self._record()

    # Looking.

    def show(self) -> None:
        """Show every replica, and what became of acknowledged records."""
        for broker, host in self._hosts.items():
            leader, follower = host.replica.leader, host.replica.follower
            if not host.is_up:
                role = "is down"
            elif leader is not None:
                role = f"leads in epoch {leader.leader_epoch}, ISR {words.ids(leader.isr)}"
                if leader.in_sync.pending is not None:
                    role += f", maximal ISR {words.ids(sorted(leader.in_sync.maximal))}"
            elif follower is not None and host.record.has_leader:
                role = f"follows {host.record.leader} in epoch {follower.leader_epoch}"
            else:
                role = "waits for a leader"
            self._tell(str(broker), f"{role}; log {self._log_of(host)}")
        record = self._controller.t0
        if record.has_leader:
            present = self._hosts[record.leader].replica.log.values
            lost = [value for value in self._acknowledged if value not in present]
            self._tell("client", f"acknowledged {' '.join(self._acknowledged) or 'nothing'}")
            if lost:
                self._tell(
                    "client", f"LOST {' '.join(lost)}: acknowledged, and not in the log of leader {record.leader}"
                )

    # What commands share.

    def _begin(self, values: list[str]) -> None:
        """Let 1 lead, and every replica have these records, committed; none of this is said."""
        say, self._say = self._say, lambda _line: None
        self.metadata("all")
        followers = [str(each) for each in self._hosts if each != 1]
        if values:
            self.produce("1", *values)
            for _ in range(3):
                self.fetch(*followers)
        self._say = say

    def _host(self, broker: str) -> Host:
        return self._hosts[int(broker)]

    def _tell(self, who: str, what: str) -> None:
        self._say(f"{who}: {what}")

    def _record(self) -> None:
        self._tell("controller", words.partition(self._controller.t0))

    @staticmethod
    def _log_of(host: Host) -> str:
        return words.log(host.replica.log, host.replica.hw)

    def _acknowledge(self, values: str) -> None:
        self._acknowledged += values.split()
        self._tell("client", f"{values} acknowledged")

    def _performed(self, broker: int, effects: Effects) -> None:
        """Say what a leader decided, send what it proposes, and answer the produces that are decided by it."""
        host = self._hosts[broker]
        leader = host.replica.leader
        assert leader is not None
        leader.check_invariants()
        for effect in effects:
            for line in words.effect(effect):
                self._tell(str(broker), line)
            if isinstance(effect, ProposeIsr):
                host.proposals.append(effect)
        for produce in list(host.waiting):
            error = leader.acknowledgement(produce.required)
            if error is None:
                continue
            host.waiting.remove(produce)
            if error is ErrorCode.NONE:
                self._acknowledge(produce.values)
            else:
                self._tell("client", f"{produce.values} not acknowledged: {error.name}")

    def _fail_waiting(self, host: Host, why: str) -> None:
        for produce in host.waiting:
            self._tell("client", f"{produce.values} not acknowledged: {why}")
        host.waiting.clear()

    def _follower_did(self, broker: str, host: Host, before: int) -> None:
        host.replica.log.epochs.check_invariants()
        for effect in host.replica.effects[before:]:
            self._tell(broker, words.follower_effect(effect))  # type: ignore[arg-type]
        self._tell(broker, f"log {self._log_of(host)}")

    def _apply(self, broker: int) -> None:
        """Let one broker act on the controller's present state."""
        host, record = self._hosts[broker], self._controller.t0
        host.record = record
        host.brokers.replace(
            {
                each.broker_id: BrokerStanding(each.broker_epoch, each.fenced, each.shutting_down)
                for each in self._controller.image.brokers.values()
            }
        )
        if record.leader == broker:
            self._lead(broker, host, record)
        else:
            self._follow(broker, host, record)

    def _lead(self, broker: int, host: Host, record: PartitionRecord) -> None:
        replica = host.replica
        leader = replica.leader
        if leader is not None:
            effects = leader.brokers_changed(self._now_ms)
            if record.leader_epoch > leader.leader_epoch:
                replica.log.epochs.assign(record.leader_epoch, replica.log.log_end)
            effects += leader.metadata_changed(
                replicas=record.replicas,
                isr=record.isr,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                now_ms=self._now_ms,
            )
        else:
            self._tell(str(broker), f"leads in epoch {record.leader_epoch} from offset {replica.log.log_end}")
            effects = replica.lead(
                record.leader_epoch,
                record.isr,
                brokers=host.brokers,
                replicas=record.replicas,
                partition_epoch=record.partition_epoch,
                now=self._now_ms,
                min_isr=self._min_isr,
            )
            if self._slow_reads is not None:
                assert replica.leader is not None
                settings = PartitionSettings(TimeLag(LAG_MS), self._min_isr, slow_reads=self._slow_reads)
                effects += replica.leader.configure(settings, self._now_ms)
        self._performed(broker, effects)

    def _follow(self, broker: int, host: Host, record: PartitionRecord) -> None:
        replica = host.replica
        if replica.leader is not None:
            self._fail_waiting(host, ErrorCode.NOT_LEADER_OR_FOLLOWER.name)
            host.proposals.clear()
        before, known = len(replica.effects), replica.follower
        replica.stop_leading()
        if not record.has_leader:
            return self._tell(str(broker), "waits for a leader")
        if known is not None and known.leader_epoch == record.leader_epoch:
            return None
        replica.follow(record.leader_epoch)
        self._tell(str(broker), f"follows {record.leader} in epoch {record.leader_epoch}")
        if len(replica.effects) > before:
            self._follower_did(str(broker), host, before)
        return None


def _ids(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def words_of(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the plain words of a command, and its name=value options."""
    plain = [each for each in arguments if "=" not in each]
    options = dict(each.split("=", 1) for each in arguments if "=" in each)
    return plain, options
