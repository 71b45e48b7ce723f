"""Cluster metadata: what the controller decided, as immutable records.

The state of the cluster is a `MetadataImage`; only a batch of `Change`s leads
from one to the next. The controller commits the batch, and every broker applies
it to its own image, so that equal versions are equal images. No image is ever
modified: `apply` copies what a batch touches (one topic's tuple of partitions,
the dict that holds it) and shares the rest. So `metadata_delta.difference` is
cheap: a shared object has not changed.

Units: `version` counts committed batches; it is Kafka's metadata offset.
Invariants: versions are consecutive; the partitions of a topic are numbered
0..n-1 without holes; leader epochs and partition epochs never decrease.
Source: KIP-500 and KIP-631 (metadata as a log of records), KIP-966 (eligible
leader replicas), KIP-455 (reassignments; moves are ours).

Records are named tuples: 2,000 partitions take some 10 ms, and JSON writes arrays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar, assert_never
from uuid import UUID

from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.immutable import Immutable
from syncline.model.impairments import Fitness, Refusal

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

NO_TOPIC_ID: Final = UUID(int=0)
NO_BROKER: Final = BrokerId(NONE)


class ResourceType(IntEnum):
    """What a configuration belongs to, by the numbers of the Kafka protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One owner of configurations; the broker named "" is the default of all brokers."""

    kind: ResourceType
    name: str


CLUSTER_DEFAULTS: Final = ConfigResource(ResourceType.BROKER, "")


class Recovery(IntEnum):
    """Whether the leader is known to hold everything committed, or has yet to confirm it (unclean election)."""

    RECOVERED = 0
    RECOVERING = 1


def directory_id(topic_id: UUID, partition: int) -> UUID:
    """Return the id under which brokers report the directory of a replica as failed.

    Kafka's brokers report whole log directories; here each replica's own one can fail (KIP-112, KIP-858).
    """
    return UUID(int=topic_id.int >> 32 << 32 | partition)


class BrokerRecord(NamedTuple):
    """One registered broker process, by its latest registration."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    host: str
    port: int
    internal_host: str
    internal_port: int
    rack: str | None = None
    fenced: bool = True
    shutting_down: bool = False
    # Directory ids (hex) of its replicas whose logs it cannot serve: a disk failed, or they are damaged.
    failed: tuple[str, ...] = ()
    # What keeps it from leading while another member can: a `Refusal`, and directory ids of damaged logs.
    impaired: tuple[str, ...] = ()

    @property
    def refusal(self) -> Refusal | None:
        """Why its disk refuses writes, None if it accepts them."""
        return next((each for each in Refusal if each in self.impaired), None)

    @property
    def active(self) -> bool:
        """Whether this broker may lead partitions and be in their ISR."""
        return not self.fenced and not self.shutting_down


class PartitionRecord(NamedTuple):
    """Replicas, in-sync set, leader and epochs of one partition.

    While it is reassigned, `replicas` are its future ones in their order and then those to be removed; `original` are
    those of before in their order, and `move` is the id of the move that owns the reassignment, if one does.
    """

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    recovery: Recovery = Recovery.RECOVERED
    original: tuple[BrokerId, ...] = ()
    move: str = ""

    @property
    def has_leader(self) -> bool:
        """Whether some broker leads; an offline partition has none."""
        return self.leader != NONE

    @property
    def is_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def complete_size(self) -> int:
        """How many replicas it has when none is missing: those being added do not count yet (KIP-352)."""
        return len(self.replicas) - len(self.adding)

    def check_invariants(self) -> None:
        """Assert what holds for every partition after every decision."""
        replicas = set(self.replicas)
        assert len(replicas) == len(self.replicas), f"a broker has two replicas: {self}"
        assert replicas.issuperset(self.isr), f"in sync without being a replica: {self}"
        assert replicas.issuperset(self.elr), f"eligible without being a replica: {self}"
        assert not set(self.isr).intersection(self.elr), f"both in sync and only eligible: {self}"
        assert self.leader == NONE or self.leader in self.isr, f"the leader is not in its ISR: {self}"


class MoveRecord(NamedTuple):
    """A move: the reassignments that were requested together, and what bounds or steers them.

    `throttle_bytes_per_s` bounds, at each broker and in each direction, the bytes that the move copies; NONE if nothing
    does. `control` says by what the command that runs the move steers its rate: "" nothing, "deadline" (`deadline_ms`)
    or "impact" (`impact_percent` of the clients' rate). `started_ms` and `deadline_ms` are Unix time.
    """

    move_id: str
    throttle_bytes_per_s: int = NONE
    started_ms: int = 0
    control: str = ""
    deadline_ms: int = NONE
    impact_percent: int = NONE
    name: str = ""


class Topic(NamedTuple):
    """A topic with its partitions; `partitions[n]` is partition n."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionRecord, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterCreated(Immutable):
    """The first change: the cluster gets its id."""

    cluster_id: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ControllerChanged(Immutable):
    """A broker took the controller lease; its term is `controller_epoch`."""

    broker_id: BrokerId
    controller_epoch: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BrokerChanged(Immutable):
    """A broker registered, was fenced or unfenced, or is leaving; the record is the whole new state."""

    record: BrokerRecord


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BrokerRemoved(Immutable):
    """A broker was unregistered."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicCreated(Immutable):
    """A topic was created with these partitions."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionRecord, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartitionsChanged(Immutable):
    """Partitions of one topic have these new states; numbers beyond the topic's last one are new partitions."""

    topic_id: UUID
    partitions: tuple[PartitionRecord, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicDeleted(Immutable):
    """A topic was deleted, with its partitions and configurations."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConfigsChanged(Immutable):
    """Configurations of one resource are set, or removed where the value is None."""

    resource: ConfigResource
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProducerIdsAllocated(Immutable):
    """Producer ids below `next_producer_id` are allocated to brokers."""

    next_producer_id: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MoveChanged(Immutable):
    """A move began, or its record is another one now."""

    record: MoveRecord


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MoveRemoved(Immutable):
    """A move is over: it owns no reassignment any more."""

    move_id: str


Change = (
    ClusterCreated
    | ControllerChanged
    | BrokerChanged
    | BrokerRemoved
    | TopicCreated
    | PartitionsChanged
    | TopicDeleted
    | ConfigsChanged
    | ProducerIdsAllocated
    | MoveChanged
    | MoveRemoved
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetadataImage(Immutable):
    """The state of the cluster as of one version.

    `move_sizes` counts the reassignments that each move owns; it follows from the partitions, and is not written.
    """

    version: int = 0
    cluster_id: str = ""
    controller_id: BrokerId = NO_BROKER
    controller_epoch: int = 0
    next_producer_id: int = 0
    brokers: Mapping[BrokerId, BrokerRecord] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    moves: Mapping[str, MoveRecord] = field(default_factory=dict)
    move_sizes: Mapping[str, int] = field(default_factory=dict)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with this id, None if there is none."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> PartitionRecord | None:
        """Return the state of one partition; None if topic or partition is unknown."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def is_active(self, broker_id: BrokerId) -> bool:
        """Return whether this broker may lead and be in sync."""
        record = self.brokers.get(broker_id)
        return record is not None and record.active

    def may_lead(self, broker_id: BrokerId, topic_id: UUID, partition: int) -> bool:
        """Return whether this broker may lead a partition: it is active, and can serve its replica."""
        record = self.brokers.get(broker_id)
        if record is None or not record.active:
            return False
        return not record.failed or directory_id(topic_id, partition).hex not in record.failed

    def fitness(self, broker_id: BrokerId, topic_id: UUID, partition: int) -> Fitness:
        """Return whether an active broker's replica should lead: not while another member is fitter."""
        record = self.brokers.get(broker_id)
        if record is None or not record.impaired:
            return Fitness.ABLE
        if directory_id(topic_id, partition).hex in record.impaired:
            return Fitness.DAMAGED
        return Fitness.ABLE if record.refusal is None else Fitness.CANNOT_WRITE

    def trouble(self, broker_id: BrokerId, topic_id: UUID, partition: int) -> str | None:
        """Return why a replica does not lead where another one can, in a word for tools; None if nothing is wrong."""
        record = self.brokers.get(broker_id)
        if record is None:
            return None
        own_id = directory_id(topic_id, partition).hex
        if own_id in record.impaired:
            return Fitness.DAMAGED.value
        return "failed" if own_id in record.failed else record.refusal

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Return the overrides of a topic; empty if it has none."""
        return self.configs.get(ConfigResource(ResourceType.TOPIC, topic), {})

    def broker_configs(self, broker_id: BrokerId) -> Mapping[str, str]:
        """Return the configurations set dynamically for one broker."""
        return self.configs.get(ConfigResource(ResourceType.BROKER, str(broker_id)), {})

    def cluster_configs(self) -> Mapping[str, str]:
        """Return the configurations set dynamically for all brokers."""
        return self.configs.get(CLUSTER_DEFAULTS, {})

    def apply(self, changes: Iterable[Change], version: int) -> "MetadataImage":
        """Return the image after one batch of changes, with this version.

        A decision may try changes out without a new version; the empty image takes a snapshot of any version.
        """
        assert self.version == 0 or 0 <= version - self.version <= 1, f"version {version} after {self.version}"
        draft = _Draft(self)
        for change in changes:
            draft.apply(change)
        return draft.finish(version)

    def check_invariants(self) -> None:
        """Assert what holds for every image, in time proportional to the number of partitions."""
        assert self.topic_names == {topic.topic_id: name for name, topic in self.topics.items()}, "ids and names differ"
        for name, topic in self.topics.items():
            numbers = [record.partition for record in topic.partitions]
            assert numbers == list(range(len(numbers))), f"partitions of {name} are numbered {numbers}"
            for record in topic.partitions:
                record.check_invariants()
        for broker_id, broker in self.brokers.items():
            assert broker.broker_id == broker_id, f"broker {broker.broker_id} stands under {broker_id}"
        for resource in self.configs:
            assert resource.kind is not ResourceType.TOPIC or resource.name in self.topics, (
                f"configurations of the topic {resource.name}, which does not exist"
            )

    def as_changes(self) -> tuple[Change, ...]:
        """Return the changes that lead from the empty image to this one: a snapshot."""
        changes: list[Change] = [ClusterCreated(self.cluster_id)] if self.cluster_id else []
        changes.append(ControllerChanged(self.controller_id, self.controller_epoch))
        changes.append(ProducerIdsAllocated(self.next_producer_id))
        changes.extend(BrokerChanged(record) for record in self.brokers.values())
        changes.extend(TopicCreated(topic.name, topic.topic_id, topic.partitions) for topic in self.topics.values())
        changes.extend(ConfigsChanged(resource, dict(values)) for resource, values in self.configs.items())
        changes.extend(MoveChanged(record) for record in self.moves.values())
        return tuple(changes)


class _Copy(Generic[_Key, _Value]):
    """A mapping of an image under construction: copied before the first write to it."""

    __slots__ = ("_own", "now")

    def __init__(self, base: Mapping[_Key, _Value]) -> None:
        self.now = base
        self._own: dict[_Key, _Value] | None = None

    def written(self) -> dict[_Key, _Value]:
        if self._own is None:
            self.now = self._own = dict(self.now)
        return self._own


class _Draft:
    """An image under construction."""

    def __init__(self, base: MetadataImage) -> None:
        self._cluster_id = base.cluster_id
        self._controller_id = base.controller_id
        self._controller_epoch = base.controller_epoch
        self._next_producer_id = base.next_producer_id
        self._brokers = _Copy(base.brokers)
        self._topics = _Copy(base.topics)
        self._topic_names = _Copy(base.topic_names)
        self._configs = _Copy(base.configs)
        self._moves = _Copy(base.moves)
        self._move_sizes = _Copy(base.move_sizes)

    def finish(self, version: int) -> MetadataImage:
        return MetadataImage(
            version=version,
            cluster_id=self._cluster_id,
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            next_producer_id=self._next_producer_id,
            brokers=self._brokers.now,
            topics=self._topics.now,
            topic_names=self._topic_names.now,
            configs=self._configs.now,
            moves=self._moves.now,
            move_sizes=self._move_sizes.now,
        )

    def apply(self, change: Change) -> None:
        match change:
            case PartitionsChanged(topic_id, partitions):
                self._change_partitions(topic_id, partitions)
            case BrokerChanged(record):
                self._brokers.written()[record.broker_id] = record
            case TopicCreated(name, topic_id, partitions):
                self._topics.written()[name] = Topic(name, topic_id, partitions)
                self._topic_names.written()[topic_id] = name
                for partition in partitions:
                    self._count_move(partition.move, 1)
            case TopicDeleted(topic_id):
                self._delete_topic(topic_id)
            case ConfigsChanged(resource, values):
                self._change_configs(resource, values)
            case ProducerIdsAllocated(next_producer_id):
                self._next_producer_id = next_producer_id
            case ControllerChanged(broker_id, controller_epoch):
                self._controller_id = broker_id
                self._controller_epoch = controller_epoch
            case BrokerRemoved(broker_id):
                self._brokers.written().pop(broker_id, None)
            case ClusterCreated(cluster_id):
                self._cluster_id = cluster_id
            case MoveChanged(move):
                self._moves.written()[move.move_id] = move
            case MoveRemoved(move_id):
                self._moves.written().pop(move_id, None)
            case _:
                assert_never(change)

    def _change_partitions(self, topic_id: UUID, changed: Sequence[PartitionRecord]) -> None:
        topics = self._topics.written()
        name = self._topic_names.now[topic_id]
        topic = topics[name]
        partitions = list(topic.partitions)
        for record in changed:
            assert record.partition <= len(partitions), f"{name}: {record.partition} after {len(partitions)} partitions"
            if record.partition == len(partitions):
                partitions.append(record)
                self._count_move(record.move, 1)
                continue
            before = partitions[record.partition]
            assert before.leader_epoch <= record.leader_epoch, f"{name}: a leader epoch falls, {before} to {record}"
            assert before.partition_epoch <= record.partition_epoch, f"{name}: a partition epoch falls, {record}"
            partitions[record.partition] = record
            if before.move != record.move:
                self._count_move(before.move, -1)
                self._count_move(record.move, 1)
        topics[name] = Topic(name, topic_id, tuple(partitions))

    def _delete_topic(self, topic_id: UUID) -> None:
        name = self._topic_names.written().pop(topic_id)
        for partition in self._topics.written().pop(name).partitions:
            self._count_move(partition.move, -1)
        self._configs.written().pop(ConfigResource(ResourceType.TOPIC, name), None)

    def _count_move(self, move_id: str, count: int) -> None:
        if not move_id:
            return
        sizes = self._move_sizes.written()
        size = sizes.get(move_id, 0) + count
        assert size >= 0, f"move {move_id} owns {size} reassignments"
        if size:
            sizes[move_id] = size
        else:
            del sizes[move_id]

    def _change_configs(self, resource: ConfigResource, values: Mapping[str, str | None]) -> None:
        configs = self._configs.written()
        after = {**configs.get(resource, {}), **values}
        merged = {name: value for name, value in after.items() if value is not None}
        if merged:
            configs[resource] = merged
        else:
            configs.pop(resource, None)
