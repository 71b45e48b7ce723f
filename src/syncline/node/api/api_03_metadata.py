"""Metadata (key 3), versions 0-12.

v1 controller and null for "all", v4 automatic creation, v5 offline replicas, v7 leader
epochs, v8 authorized operations (KIP-430), v10 topic ids, v12 look-up by id (KIP-516).

The encoder is hand-written, and each topic's partitions are encoded once per image: a
client that often asks for everything costs a copy. `node.metadata.departures` decides how
answers show brokers that have just died.
"""

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from syncline.core.cluster.topic_names import Collisions, what_is_wrong
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.model.metadata import MetadataImage, Topic
from syncline.node.loop.list_parts import made_in_steps
from syncline.node.metadata.metadata_rows import INTERNAL, RowInSteps, TopicsInSteps
from syncline.node.metadata.topic_creation import UNDER_WAY_MAX
from syncline.node.serving.request import DECODED_AT_ONCE_BYTES
from syncline.wire.api import ApiKey
from syncline.wire.metadata import (
    MetadataBroker,
    MetadataRequest,
    MetadataTopic,
    encode_metadata_in_steps,
    parse_metadata_request,
)
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.metadata.describing import Describing
    from syncline.node.serving.request import Request, Steps

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def describing(self) -> Describing:
            """Return what Metadata requests use."""


KEY = ApiKey.METADATA

NO_TOPIC_ID: Final = bytes(16)
NOT_ASKED: Final = -(2**31)
# Operations allowed without an authorizer, as Kafka's bit fields.
TOPIC_OPERATIONS: Final = 3576
CLUSTER_OPERATIONS: Final = 8096


def handle(broker: "Host", request: "Request") -> "Steps":
    """Answer from this broker's image; missing topics are created when the client allows it."""
    asked = yield from _parsed(request)
    describing = broker.describing
    doubted = describing.departures.doubted
    if doubted and (yield from _leads_any(doubted, describing.cluster.image, asked.topics)):
        # Wait only once: a connection that keeps breaking raises a new doubt each time.
        describing.departures.when_doubt_ends(
            lambda: request.connection.step(request, _answer(describing, request, asked))
        )
    else:
        yield from _answer(describing, request, asked)


def _parsed(request: "Request") -> Generator[None, None, MetadataRequest]:
    """Return the request; a long one is read in steps, which only the general codec can."""
    if len(request.body) - request.position <= DECODED_AT_ONCE_BYTES:
        return parse_metadata_request(request.body, request.version, request.position)
    entity = yield from request.decode_in_steps()
    topics: list[tuple[bytes | None, str | None]] | None = None
    if entity.topics is not None:
        topics = []
        for each in entity.topics:
            topic_id = getattr(each, "topic_id", None)
            topics.append((None if topic_id is None else topic_id.bytes, each.name))
            yield
    return MetadataRequest(
        topics,
        getattr(entity, "allow_auto_topic_creation", True),
        getattr(entity, "include_cluster_authorized_operations", False),
        getattr(entity, "include_topic_authorized_operations", False),
    )


def _answer(describing: "Describing", request: "Request", asked: MetadataRequest) -> "Steps":
    if request.is_done:
        return
    version, image = request.version, describing.cluster.image
    names = asked.topics
    rows: TopicsInSteps
    if names is None or (version == 0 and not names):
        rows = TopicsInSteps(image.topics.values(), lambda topic: describing.rows.row(image, topic, version))
    else:
        refusal = yield from _refuse_whole(names, version)
        if refusal is not None:
            body = yield from encode_metadata_in_steps(
                version, brokers=[], cluster_id=None, controller_id=NONE, topics=refusal
            )
            request.reply_parts((body,))
            return
        wanted: dict[tuple[bytes, str | None], None] = {}
        has_ids = False
        for topic_id, name in names:
            key = topic_id or NO_TOPIC_ID
            has_ids = has_ids or key != NO_TOPIC_ID
            wanted[key, None if key != NO_TOPIC_ID else name] = None
            yield
        if has_ids:
            # With an id among them, those with a name alone do not count.
            wanted = {key: None for key in wanted if key[0] != NO_TOPIC_ID}
        missing = yield from _missing(describing, image, wanted, may_create=asked.allow_auto_topic_creation)
        if missing:
            describing.topics.create_later(missing)
        rows = TopicsInSteps(wanted, lambda key: _named(describing, image, key[0], key[1], version))
    topics = Rows(rows, _with_operations) if asked.include_topic_authorized_operations else rows
    just_fenced = describing.departures.just_fenced
    brokers = [
        MetadataBroker(record.broker_id, record.host, record.port, record.rack)
        for record in image.brokers.values()
        if not record.fenced or record.broker_id in just_fenced
    ]
    body = yield from encode_metadata_in_steps(
        version,
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        authorized_operations=CLUSTER_OPERATIONS if asked.include_cluster_authorized_operations else NOT_ASKED,
    )
    request.reply_parts((body,))


def _with_operations(row: MetadataTopic | None) -> MetadataTopic | None:
    # Of a topic that is not there, too, unless it has no name.
    if row is None or row.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
        return row
    return row._replace(authorized_operations=TOPIC_OPERATIONS)


def _leads_any(
    doubted: frozenset[int], image: MetadataImage, names: list[tuple[bytes | None, str | None]] | None
) -> Generator[None, None, bool]:
    """Return whether the answer would name one of these brokers as a leader."""
    topics: Iterable[Topic | None] = (
        image.topics.values()
        if names is None
        else (
            image.topic_by_id(UUID(bytes=topic_id)) if topic_id else image.topics.get(name or "")
            for topic_id, name in names
        )
    )
    for topic in topics:
        if topic is not None and any(record.leader in doubted for record in topic.partitions):
            return True
        yield
    return False


def _refuse_whole(
    names: list[tuple[bytes | None, str | None]], version: int
) -> Generator[None, None, list[MetadataTopic] | None]:
    """Return the rows of an answer to a request that mixes ids and names as its version does not allow."""
    code = None
    for topic_id, name in names:
        has_id = (topic_id or NO_TOPIC_ID) != NO_TOPIC_ID
        if version < 12 and (name is None or has_id):
            code = ErrorCode.INVALID_REQUEST
            break
        if name is None and not has_id:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            break
        yield
    if code is None:
        return None
    return (
        yield from made_in_steps(
            names, lambda named: MetadataTopic(code, named[1] or "", named[0] or NO_TOPIC_ID, False, [])
        )
    )


def _missing(
    describing: "Describing",
    image: MetadataImage,
    wanted: Iterable[tuple[bytes, str | None]],
    *,
    may_create: bool,
) -> Generator[None, None, list[str]]:
    """Return the topics that do not exist and are to be created, as many as can be under way."""
    if not may_create or not describing.configs.broker.auto_create_topics_enable:
        return []
    collisions = Collisions(image.topics)
    missing: list[str] = []
    for _, name in wanted:
        if len(missing) == UNDER_WAY_MAX:
            break
        if name is not None and name not in image.topics and what_is_wrong(name) is None and not collisions.of(name):
            missing.append(name)
        yield
    return missing


def _named(
    describing: "Describing", image: MetadataImage, topic_id: bytes, name: str | None, version: int
) -> RowInSteps:
    if topic_id != NO_TOPIC_ID:
        found = image.topic_by_id(UUID(bytes=topic_id))
        if found is None:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id, False, [])
        return (yield from describing.rows.row(image, found, version))
    assert name is not None, "a row without id and name is refused with the whole request"
    found = image.topics.get(name)
    if found is not None:
        return (yield from describing.rows.row(image, found, version))
    is_illegal = what_is_wrong(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataTopic(code, name, NO_TOPIC_ID, name in INTERNAL, [])
