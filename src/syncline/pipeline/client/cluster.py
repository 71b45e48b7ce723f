"""A cluster to read from and write to: where partitions are, which offsets they hold, and their raw record batches.

It is synchronous because a Spark task does one thing at a time, and it lives for one task or one query. Its
connections (`connections`) and its patience (`retrying`) are parts of their own.

It retries transient errors (a moved leader, a restarting broker, a new leader that does not know its high watermark
yet), with fresh metadata, until `patience_ms` has passed without success, or `bootstrap_timeout_ms` if no broker ever
answered. Other errors raise `BrokerError` with a sentence that says what to do, or `OffsetOutOfRangeError` for records
that are gone; those of encryption and authentication are `SecurityError`.

Fetches and offsets are asked for by name, so a topic that was deleted and created again answers, too. A reader that
knows which topic it means puts its id into `expected`: metadata with another id, or none, raise `TopicGoneError` after
a moment. `confirm` asks the leaders themselves; as an id never comes back, what was read between two confirmations
with one id is all from that topic.

Units: milliseconds; offsets count records.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.pipeline.client import fetching, metadata, offsets, retrying, versions
from syncline.pipeline.client.connections import Connections
from syncline.pipeline.client.fetching import FETCH, Fetched
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.metadata import METADATA, METADATA_WITHOUT_IDS, Topic
from syncline.pipeline.client.offsets import LIST_OFFSETS
from syncline.pipeline.client.refusals import (
    HungUpError,
    OtherTopicError,
    RetriableError,
    check_rights,
    is_fine,
    name_of,
)
from syncline.pipeline.client.settings import Address, ClientSettings
from syncline.pipeline.client.versions import API_VERSIONS
from syncline.pipeline.errors import BrokerError, OffsetOutOfRangeError

Answer = TypeVar("Answer")


class Whereabouts(NamedTuple):
    """Where brokers are, and which of them leads each partition, as far as one process knows and passes on."""

    brokers: Mapping[int, Address]
    leaders: Mapping[TopicPartition, int]


@dataclass(slots=True)
class Cluster:
    """Reads metadata, offsets and record batches from a cluster; use it as a context manager."""

    settings: ClientSettings
    expected: Mapping[str, str] = field(default_factory=dict)
    _brokers: dict[int, Address] = field(default_factory=dict)
    _leaders: dict[TopicPartition, int] = field(default_factory=dict)
    _metadata_api: Api = METADATA
    _is_metadata_served: bool = False
    _connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        """Make the connections; a caller that knows brokers has them from one that answered."""
        self._connections = Connections(self.settings, is_proven=bool(self._brokers))

    @classmethod
    def known(
        cls, settings: ClientSettings, whereabouts: Whereabouts, expected: Mapping[str, str] | None = None
    ) -> Self:
        """Return a cluster that need not ask where its partitions are, unless they moved in the meantime.

        It works as long as one of the known brokers lives, even if all of the bootstrap list are gone.
        """
        return cls(settings, expected or {}, dict(whereabouts.brokers), dict(whereabouts.leaders))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; later use opens new ones."""
        self._connections.close()

    def whereabouts(self, places: Iterable[TopicPartition]) -> Whereabouts:
        """Return where partitions are, as far as earlier responses said, without asking a broker."""
        leaders = {place: self._leaders[place] for place in places if place in self._leaders}
        return Whereabouts(dict(self._brokers), leaders)

    def describe(self, topics: Iterable[str] | None) -> dict[str, Topic]:
        """Return those of the named topics that exist, by name; all topics of the cluster for `None`."""
        names = None if topics is None else sorted(set(topics))
        return self.persist("ask for the topics", lambda: self._metadata(names))

    def partitions(self, topics: Iterable[str]) -> tuple[TopicPartition, ...]:
        """Return all partitions of the named topics, sorted; raise `BrokerError` for a topic that does not exist."""
        names = sorted(set(topics))
        found = self.describe(names)
        missing = [name for name in names if name not in found]
        if missing:
            raise BrokerError(
                f"topic {', '.join(missing)} does not exist on {self.settings.bootstrap_text}: "
                "create it first, or correct its name in the option or the column topic"
            )
        return tuple(TopicPartition(name, index) for name in names for index in sorted(found[name].leaders))

    def confirm(self, places: Iterable[TopicPartition]) -> None:
        """Ask the leader of each place whether its topic is still the expected one; raise `TopicGoneError` if not."""
        wanted = [place for place in places if self.expected.get(place.topic)]
        if wanted:
            names = sorted({place.topic for place in wanted})
            more = f" and {len(names) - 1} more topics" if names[1:] else ""
            self.persist(f"confirm topic {names[0]}{more}", partial(self._confirm, wanted))

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset for each partition's timestamp; `EARLIEST` and `LATEST` are timestamps too.

        For a time this is the offset of the first record that is not older, -1 where there is none. `LATEST` is the
        end of what this client may read, or, with `read_committed`, what any such client may.
        """
        committed = self.settings.read_committed if read_committed is None else read_committed
        found: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int]:
            missing = {place: time for place, time in wanted.items() if place not in found}
            self._list_offsets(missing, found, read_committed=committed)
            return found

        return self.persist("ask for offsets", ask)

    def fetch(self, place: TopicPartition, offset: int) -> Fetched:
        """Return record batches, beginning with the one that holds `offset`; wait up to half a second for it.

        Raises `OffsetOutOfRangeError` when the log does not hold the offset.
        """
        return self.persist(f"fetch {place} at offset {offset}", lambda: self._fetch(place, offset))

    def ask(self, address: Address, api: Api, body: bytes) -> memoryview:
        """Return one broker's answer; one attempt, within `persist`."""
        return self._connections.call(address, api, body)

    def ask_any(self, api: Api, body: bytes) -> memoryview:
        """Return the answer of the first broker that answers: connected, found or known, bootstrap; one attempt."""
        known = (*self._connections.by_address, *self._brokers.values(), *self.settings.bootstrap)
        failures: list[RetriableError] = []
        for address in dict.fromkeys(known):
            try:
                return self.ask(address, api, body)
            except RetriableError as error:
                failures.append(error)
        kind = HungUpError if any(isinstance(error, HungUpError) for error in failures) else RetriableError
        raise kind("; ".join(map(str, failures)))

    def leader(self, place: TopicPartition) -> Address:
        """Return where a partition's leader is; raise `RetriableError` if it has none. One attempt."""
        if place not in self._leaders:
            self._metadata([place.topic])
        leader = self._leaders.get(place)
        if leader is None:
            raise OtherTopicError({place.topic: f"partition {place} no longer exists"})
        if leader not in self._brokers:
            raise RetriableError(f"partition {place} has no leader")
        return self._brokers[leader]

    def knows(self, place: TopicPartition) -> bool:
        """Return whether `leader` has its answer without asking a broker."""
        return self._leaders.get(place) in self._brokers

    def forget(self, place: TopicPartition) -> None:
        """Ask for the partition's leader before it is used again."""
        self._leaders.pop(place, None)

    def send_fetch(self, address: Address, asked: Mapping[TopicPartition, int]) -> None:
        """Ask a broker for batches of partitions that it leads, each from an offset on; raise `RetriableError`."""
        self._connections.send(address, FETCH, fetching.request(asked, self.settings))

    def receive_fetch(self, address: Address) -> dict[TopicPartition, Fetched]:
        """Return the answer to the oldest fetch that this broker has not answered; raise `RetriableError`."""
        view = self._connections.receive(address)
        try:
            code, parts = fetching.answer(view)
        except (struct.error, UnicodeDecodeError) as error:
            raise RetriableError(f"a response from {address[0]}:{address[1]} cannot be read: {error!r}") from error
        if not is_fine(code, "fetch"):
            raise RetriableError(f"{address[0]}:{address[1]}: {name_of(code)}")
        return parts

    def awaits(self, address: Address) -> bool:
        """Return whether a request to this broker is not answered yet."""
        return self._connections.awaits(address)

    def persist(self, task: str, attempt: Callable[[], Answer]) -> Answer:
        """Return the answer of the first attempt that succeeds; forget connections and metadata between attempts.

        An attempt fails with `RetriableError`; `retrying` describes what it finally becomes.
        """
        return retrying.persist(
            task, attempt, self.settings, patience_ms=lambda: self._connections.patience_ms, forget=self._forget_all
        )

    def _forget_all(self) -> None:
        self.close()
        self._leaders.clear()

    def _metadata(self, topics: Sequence[str] | None) -> dict[str, Topic]:
        """Return the topics that exist, all of them for `None`, and remember brokers and leaders."""
        try:
            view = self.ask_any(self._metadata_api, metadata.request(topics, self._metadata_api))
        except HungUpError:
            if self._is_metadata_served:
                raise
            newest = versions.answer(self.ask_any(API_VERSIONS, b"")).get(METADATA.key, METADATA.version)
            if newest >= METADATA.version:
                raise
            self._metadata_api = METADATA_WITHOUT_IDS
            view = self.ask_any(self._metadata_api, metadata.request(topics, self._metadata_api))
        self._is_metadata_served = True
        return self._remember(metadata.answer(view, self._metadata_api))

    def _remember(self, told: metadata.Metadata) -> dict[str, Topic]:
        """Return the topics that exist; raise `OtherTopicError` for those that are not the expected ones."""
        self._brokers = dict(told.brokers)
        found: dict[str, Topic] = {}
        others: dict[str, str] = {}
        for name, topic in told.topics.items():
            if topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if topic.code == ErrorCode.LEADER_NOT_AVAILABLE:
                raise RetriableError(f"topic {name} is being created")
            if topic.code != ErrorCode.NONE:
                check_rights(topic.code, f"metadata of topic {name}")
                raise BrokerError(f"the broker refuses topic {name}: {name_of(topic.code)}")
            wanted_id = self.expected.get(name, "")
            if wanted_id and topic.id and topic.id != wanted_id:
                others[name] = f"topic {name} was deleted and created again: its id was {wanted_id}, now {topic.id}"
                continue
            found[name] = topic
            self._leaders |= {TopicPartition(name, index): leader for index, leader in topic.leaders.items()}
        if others:
            raise OtherTopicError(others)
        return found

    def _confirm(self, places: Sequence[TopicPartition]) -> None:
        by_leader: dict[Address, set[str]] = {}
        for place in places:
            by_leader.setdefault(self.leader(place), set()).add(place.topic)
        gone: dict[str, str] = {}
        for address, topics in by_leader.items():
            view = self.ask(address, self._metadata_api, metadata.request(sorted(topics), self._metadata_api))
            try:
                found = self._remember(metadata.answer(view, self._metadata_api))
            except OtherTopicError as error:
                gone |= error.topics
            else:
                gone |= {topic: f"topic {topic} was deleted" for topic in sorted(topics - found.keys())}
        if gone:
            raise OtherTopicError(gone)

    def _list_offsets(
        self, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, int], *, read_committed: bool
    ) -> None:
        """Ask each leader for its partitions, and put its answers into `found`."""
        unknown = {place.topic for place in wanted} - {place.topic for place in self._leaders}
        if unknown:
            self._metadata(sorted(unknown))
        by_leader: dict[Address, dict[TopicPartition, int]] = {}
        for place in sorted(wanted):
            by_leader.setdefault(self.leader(place), {})[place] = wanted[place]
        failed = ""
        for address, asked in by_leader.items():
            question = offsets.request(asked, read_committed=read_committed)
            for place, (code, offset) in offsets.answer(self.ask(address, LIST_OFFSETS, question)).items():
                if is_fine(code, f"offsets of {place}"):
                    found[place] = offset
                else:
                    failed = f"{place}: {name_of(code)}"
        if failed:
            raise RetriableError(failed)

    def _fetch(self, place: TopicPartition, offset: int) -> Fetched:
        address = self.leader(place)
        self.send_fetch(address, {place: offset})
        fetched = self.receive_fetch(address).get(place)
        if fetched is None:
            raise RetriableError(f"the response does not contain {place}")
        if fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(f"{place} does not hold offset {offset}")
        if not is_fine(fetched.code, f"fetch of {place} at offset {offset}"):
            raise RetriableError(f"{place}: {name_of(fetched.code)}")
        return fetched
