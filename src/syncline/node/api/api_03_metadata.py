"""Metadata (key 3), versions 0-12.

v1 controller and null for "all", v4 automatic creation, v5 offline replicas, v7 leader
epochs, v8 authorized operations (KIP-430), v10 topic ids, v12 look-up by id (KIP-516).

The encoder is hand-written, and each topic's partitions are encoded once per image: a
client that often asks for everything costs a copy. `node.departures` decides how
answers show brokers that have just died.
"""

from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from syncline.core.cluster.topic_names import colliding, what_is_wrong
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.model.metadata import MetadataImage
from syncline.node.metadata_rows import INTERNAL
from syncline.wire.api import ApiKey
from syncline.wire.metadata import (
    MetadataBroker,
    MetadataRequest,
    MetadataTopic,
    encode_metadata_response,
    parse_metadata_request,
)

if TYPE_CHECKING:
    from syncline.node.describing import Describing
    from syncline.node.request import Request

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


def handle(broker: "Host", request: "Request") -> None:
    """Answer from this broker's image; missing topics are created when the client allows it."""
    asked = parse_metadata_request(request.body, request.version, request.position)
    describing = broker.describing
    doubted = describing.departures.doubted
    if doubted and _leads_any(doubted, describing.cluster.image, asked.topics):
        # Wait only once: a connection that keeps breaking raises a new doubt each time.
        describing.departures.when_settled(lambda: _answer(describing, request, asked))
    else:
        _answer(describing, request, asked)


def _answer(describing: "Describing", request: "Request", asked: MetadataRequest) -> None:
    if request.is_done:
        return
    version, image = request.version, describing.cluster.image
    names = asked.topics
    if names is None or (version == 0 and not names):
        rows = [describing.rows.row(image, topic, version) for topic in image.topics.values()]
    else:
        refusal = _refuse_whole(names, version)
        if refusal is not None:
            request.reply_parts(
                (encode_metadata_response(version, brokers=[], cluster_id=None, controller_id=NONE, topics=refusal),)
            )
            return
        rows = _named(describing, names, version, may_create=asked.allow_auto_topic_creation)
    if asked.include_topic_authorized_operations:
        rows = [row._replace(authorized_operations=TOPIC_OPERATIONS) if not row.error_code else row for row in rows]
    just_fenced = describing.departures.just_fenced
    brokers = [
        MetadataBroker(record.broker_id, record.host, record.port, record.rack)
        for record in image.brokers.values()
        if not record.fenced or record.broker_id in just_fenced
    ]
    request.reply_parts(
        (
            encode_metadata_response(
                version,
                brokers=brokers,
                cluster_id=image.cluster_id,
                controller_id=image.controller_id,
                topics=rows,
                authorized_operations=CLUSTER_OPERATIONS if asked.include_cluster_authorized_operations else NOT_ASKED,
            ),
        )
    )


def _leads_any(
    doubted: frozenset[int], image: MetadataImage, names: list[tuple[bytes | None, str | None]] | None
) -> bool:
    """Return whether the answer would name one of these brokers as a leader."""
    topics = (
        image.topics.values()
        if names is None
        else [
            image.topic_by_id(UUID(bytes=topic_id)) if topic_id else image.topics.get(name or "")
            for topic_id, name in names
        ]
    )
    return any(record.leader in doubted for topic in topics if topic is not None for record in topic.partitions)


def _refuse_whole(names: list[tuple[bytes | None, str | None]], version: int) -> list[MetadataTopic] | None:
    """Return the rows of an answer to a request that mixes ids and names as its version does not allow."""
    if version < 12 and any(name is None or (topic_id or NO_TOPIC_ID) != NO_TOPIC_ID for topic_id, name in names):
        code = ErrorCode.INVALID_REQUEST
    elif any(name is None and (topic_id or NO_TOPIC_ID) == NO_TOPIC_ID for topic_id, name in names):
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        return None
    return [MetadataTopic(code, name or "", topic_id or NO_TOPIC_ID, False, []) for topic_id, name in names]


def _named(
    describing: "Describing", names: list[tuple[bytes | None, str | None]], version: int, *, may_create: bool
) -> list[MetadataTopic]:
    """Return the rows of the topics that a request names; with an id among them, those with an id alone."""
    rows: dict[tuple[bytes, str | None], MetadataTopic] = {}
    if any((topic_id or NO_TOPIC_ID) != NO_TOPIC_ID for topic_id, _ in names):
        names = [(topic_id, name) for topic_id, name in names if (topic_id or NO_TOPIC_ID) != NO_TOPIC_ID]
    for topic_id, name in names:
        wanted = topic_id or NO_TOPIC_ID
        if wanted != NO_TOPIC_ID:
            found = describing.cluster.image.topic_by_id(UUID(bytes=wanted))
            row = (
                describing.rows.row(describing.cluster.image, found, version)
                if found is not None
                else MetadataTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted, False, [])
            )
            rows[wanted, None] = row
        elif name is not None and (NO_TOPIC_ID, name) not in rows:
            rows[NO_TOPIC_ID, name] = _by_name(describing, name, version, may_create=may_create)
    return list(rows.values())


def _by_name(describing: "Describing", name: str, version: int, *, may_create: bool) -> MetadataTopic:
    image = describing.cluster.image
    found = image.topics.get(name)
    if found is not None:
        return describing.rows.row(image, found, version)
    if what_is_wrong(name) is not None:
        return MetadataTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name, NO_TOPIC_ID, name in INTERNAL, [])
    may_create = may_create and describing.configs.broker.auto_create_topics_enable
    if may_create and colliding(name, image.topics) is None:
        describing.topics.create_later(name)
    return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, NO_TOPIC_ID, name in INTERNAL, [])
