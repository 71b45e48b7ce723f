"""The language of the sequences: what to send, where to, and what to remember of the answer.

A sequence is plain data, so that it can be recorded beside its answers and compared with what was recorded. Names and
values that only exist at run time (topic ids, member ids, brokers) stand in it as the small value classes below.

Names: topics and groups are written short (`t`, `g`); the player puts a prefix of the sequence before them, so that all
sequences can share one cluster. `exact(...)` is sent as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.batches import Batch


@dataclass(frozen=True)
class Name:
    """A topic or group of this sequence."""

    short: str


@dataclass(frozen=True)
class TopicId:
    """The id of a topic of this sequence."""

    topic: str


@dataclass(frozen=True)
class Saved:
    """A value saved from an earlier answer, plus `add` if it is a number."""

    name: str
    add: int = 0


@dataclass(frozen=True)
class BrokerNumber:
    """The id of the broker with this rank; ranks count from 0 in the order of ids."""

    rank: int
    as_text: bool = False


@dataclass(frozen=True)
class Subscription:
    """Consumer-protocol metadata that subscribes to topics of this sequence."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class Batches:
    """Several batches, one behind the other, as one partition's records."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Joined:
    """A string made of parts, some of which are values."""

    parts: tuple[Any, ...]


def exact(text: str) -> "Joined":
    """Return `text` itself, without the prefix of the sequence."""
    return Joined((text,))


def name(short: Any) -> Any:
    """Return a short name as a name of this sequence; values pass."""
    return Name(short) if isinstance(short, str) else short


@dataclass(frozen=True)
class Target:
    """Where a request goes: `kind` is broker, leader, follower, coordinator or other_than_coordinator."""

    kind: str
    subject: Any = None
    index: int = 0

    def described(self) -> str:
        """Return one readable line."""
        subject = self.subject.parts[0] if isinstance(self.subject, Joined) else self.subject
        return {
            "broker": f"broker {self.index}",
            "leader": f"leader of {subject}-{self.index}",
            "follower": f"not the leader of {subject}-{self.index}",
            "coordinator": f"coordinator of {subject}",
            "other_than_coordinator": f"not the coordinator of {subject}",
        }[self.kind]


def broker(rank: int = 0) -> Target:
    """Return the broker with this rank."""
    return Target("broker", index=rank)


def leader(topic: Any, partition: int = 0) -> Target:
    """Return the leader of a partition."""
    return Target("leader", topic, partition)


def follower(topic: Any, partition: int = 0) -> Target:
    """Return the lowest broker that does not lead the partition (a replica of it, if it has others)."""
    return Target("follower", topic, partition)


def coordinator(group: Any) -> Target:
    """Return the coordinator of a group."""
    return Target("coordinator", group)


def other_than_coordinator(group: Any) -> Target:
    """Return a broker that does not coordinate the group."""
    return Target("other_than_coordinator", group)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One request.

    `save` maps names to paths in the answer. `hold` sends without waiting; a later `Receive` on the same connection
    takes the answer. `waits_ms` records whether the answer took about that long. `settle` maps a path to a value and
    repeats the request until the answer has it: for what is allowed to become visible with a delay.
    `quiet` steps are sent and not recorded. `own_rows` drops the topics and groups of other sequences from a listing.
    `in_order` records the topics of an answer in their order.
    `answer_version` is the version of the answer if it is not the request's. `raw` is sent instead of a frame.
    """

    key: int
    version: int
    body: Any = None
    to: Target = field(default_factory=broker)
    connection: str = "main"
    save: Mapping[str, str] = field(default_factory=dict)
    hold: bool = False
    waits_ms: int | None = None
    answer_ms: int = 8_000
    settle: Mapping[str, Any] = field(default_factory=dict)
    quiet: bool = False
    own_rows: bool = False
    in_order: bool = False
    answer_version: int | None = None
    header_version: int | None = None
    client_id: str | None = "conformance"
    suffix: bytes = b""
    raw: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Receive:
    """The answer to an earlier step that was held."""

    to: Target = field(default_factory=broker)
    connection: str = "main"
    save: Mapping[str, str] = field(default_factory=dict)
    waits_ms: int | None = None
    answer_ms: int = 8_000


@dataclass(frozen=True)
class Pause:
    """Real time that must pass; kept short."""

    ms: int


@dataclass(frozen=True)
class Departure:
    """Here the one broker of the world that leaves has left; what comes before is done by all sequences before it."""


Action = Step | Receive | Pause | Departure


@dataclass(frozen=True)
class Topic:
    """A topic made before the sequence starts: its replicas by rank for each partition, and configs."""

    replicas: tuple[tuple[int, ...], ...] = ((0,),)
    configs: Mapping[str, str] = field(default_factory=dict)


def topic(*replicas: tuple[int, ...], **configs: str) -> Topic:
    """Return a topic; config names are written with underscores."""
    return Topic(replicas or ((0,),), {key.replace("_", "."): value for key, value in configs.items()})


@dataclass(frozen=True)
class Sequence:
    """A named list of actions, and the topics that exist before it."""

    name: str
    about: str
    topics: Mapping[str, Topic]
    actions: tuple[Action, ...]
    world: str = "steady"


Build = Callable[[int], list[Action]]


@dataclass(frozen=True)
class Declaration:
    """A function that lists the actions for one version, and the versions it is to be asked for."""

    build: Build
    versions: tuple[int, ...]
    topics: Mapping[str, Topic]


DECLARED: dict[str, list[Declaration]] = {}


def sequence(*versions: int, **topics: Topic) -> Callable[[Build], Build]:
    """Declare the decorated function as a sequence, once per version."""

    def declare(build: Build) -> Build:
        DECLARED.setdefault(build.__module__, []).append(Declaration(build, versions or (0,), topics))
        return build

    return declare
