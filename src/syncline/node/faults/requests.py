"""Requests that a fault strikes: not processed, processed but not answered, or answered late.

One hard idea: a request whose *reply* a fault strikes gets another class, with the same slots and another way to
answer. Handlers do not notice, and other requests cost nothing. Without a rule, requests do not pass through this
module (`registry` replaces the dispatcher's method).

    api-error        the request is not processed; its response is a Kafka error
    api-disconnect   the request is not processed; its connection closes
    api-drop-reply   the request is processed; when it is the response's turn, the connection closes instead
    api-throttle     the request is processed; its response and later ones on its connection are delayed

A lost response closes its connection, because TCP loses no single response: a client that misses one misses all later
ones. Only Metadata is processed before its error: a client without a list of brokers could not find the cluster again.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast
from uuid import UUID

from syncline.core.fetching.session_cache import SessionCache
from syncline.node.faults.error_replies import error_reply
from syncline.node.faults.names import API_DISCONNECT, API_DROP_REPLY, API_ERROR, API_THROTTLE
from syncline.node.faults.rules import Rule
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.serving.request import Request
from syncline.node.unix_sockets.sending import read_files
from syncline.records.buffers import Buffer, Part
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_response
from syncline.wire.errors import DecodeError

_Named = list[tuple[str, int | None]]
_Held = dict[Callable[[], None], asyncio.TimerHandle]
# Names of request fields that hold a topic, or a partition of the enclosing topic.
_TOPIC_FIELDS = ("topic", "name", "topic_name")
_PARTITION_FIELDS = ("partition", "partition_index", "index", "partition_id")
_TOPIC_LISTS = ("topics", "topic_names", "topic_data")


class RequestFaults:
    """The faults that strike requests of one broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        cluster: ClusterView,
        sessions: SessionCache,
        dispatch: Callable[[Request], None],
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._sessions = sessions
        self._dispatch = dispatch
        self._rules: tuple[Rule, ...] = ()
        self._classes: dict[Rule, type[Request]] = {}
        # Delayed answers by rule, each with its timer.
        self._held: dict[Rule, _Held] = {}
        self.on_struck: Callable[[Rule], None] | None = None

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Apply these rules from now on."""
        self._rules = tuple(rules)
        self._classes = {rule: self._classes.get(rule) or self._class_of(rule) for rule in rules}

    def lift(self, rule: Rule) -> None:
        """Send the answers that this rule delays."""
        held = self._held.pop(rule, {})
        for answer, timer in list(held.items()):
            timer.cancel()
            answer()
        held.clear()

    def close(self) -> None:
        """Drop delayed answers: the broker is stopping, and its connections are closed."""
        for held in self._held.values():
            for timer in held.values():
                timer.cancel()
        self._held.clear()

    def dispatch(self, request: Request) -> None:
        """Handle a request, or strike it."""
        rule = self._rule_for(request)
        if rule is None:
            self._dispatch(request)
            return
        acknowledges = request.key != ApiKey.PRODUCE or _acks_of(request) != 0
        if rule.kind == API_DISCONNECT:
            request.connection.close(f"injected fault {rule.id}: disconnected")
        elif rule.kind == API_ERROR and request.key != ApiKey.METADATA:
            self._refuse(request, rule, acknowledges=acknowledges)
        else:
            if acknowledges:
                request.__class__ = self._classes[rule]
            self._dispatch(request)
        if self.on_struck is not None:
            self.on_struck(rule)

    def _rule_for(self, request: Request) -> Rule | None:
        named: _Named | None = None

        def partitions() -> _Named:
            nonlocal named
            if named is None:
                named = self._partitions_of(request)
            return named

        for rule in self._rules:
            if rule.selects_request(request.key, request.listener, request.client_id, partitions) and rule.strikes():
                return rule
        return None

    def _partitions_of(self, request: Request) -> _Named:
        """Return the (topic, partition) pairs that a request names; None: the whole topic."""
        try:
            entity = request.decode()
        except DecodeError:
            # The handler will report what is wrong with the request.
            return []
        named: _Named = []
        self._collect(entity, named)
        if request.key == ApiKey.FETCH:
            session = self._sessions.find(int(getattr(entity, "session_id", 0)))
            if session is not None:
                keys = cast("Iterable[tuple[object, int]]", session.partitions)
                named.extend((self._name_of(topic), partition) for topic, partition in keys)
        return named

    def _collect(self, entity: Any, named: _Named) -> None:
        for field in dataclasses.fields(entity):
            values = getattr(entity, field.name)
            if not isinstance(values, tuple):
                continue
            for value in values:
                if isinstance(value, str) and field.name in _TOPIC_LISTS:
                    named.append((value, None))
                elif dataclasses.is_dataclass(value):
                    topic = self._topic_of(value)
                    if topic is None:
                        self._collect(value, named)
                    else:
                        named.extend((topic, partition) for partition in _partitions_in(value))

    def _topic_of(self, row: Any) -> str | None:
        for name in _TOPIC_FIELDS:
            value = getattr(row, name, None)
            if isinstance(value, str):
                return value
        topic_id = getattr(row, "topic_id", None)
        return self._name_of(topic_id) if isinstance(topic_id, UUID) else None

    def _name_of(self, topic: object) -> str:
        if isinstance(topic, str):
            return topic
        topic_id = topic if isinstance(topic, UUID) else UUID(bytes=cast("bytes", topic))
        return self._cluster.image.topic_names.get(topic_id, "")

    def _refuse(self, request: Request, rule: Rule, *, acknowledges: bool) -> None:
        assert rule.error is not None, "an api-error rule has an error"
        if not acknowledges:
            request.reply_nothing()
            return
        try:
            entity = request.decode()
        except DecodeError as error:
            request.connection.close(f"malformed request, API key {request.key}: {error}")
            return
        reply = error_reply(entity, request.key, request.version, rule.error, f"injected fault {rule.id}")
        request.reply(reply)

    def _class_of(self, rule: Rule) -> type[Request]:
        if rule.kind == API_DROP_REPLY:
            return _without_reply(rule)
        if rule.kind == API_THROTTLE:
            return _late(rule, self._loop, self._held.setdefault(rule, {}))
        if rule.kind == API_ERROR:
            return _with_topic_errors(rule)
        assert rule.kind == API_DISCONNECT, f"faults of kind {rule.kind} have no effect on requests"
        return Request


def _without_reply(rule: Rule) -> type[Request]:
    class RequestWithoutReply(Request):
        """A request whose response is lost, and its connection with it."""

        __slots__ = ()

        def take_answer(self) -> Sequence[Part] | None:
            """Close the connection instead of answering: it is this response's turn."""
            self.connection.close(f"injected fault {rule.id}: the response is lost")
            return None

    return RequestWithoutReply


def _late(rule: Rule, loop: asyncio.AbstractEventLoop, held: _Held) -> type[Request]:
    class LateRequest(Request):
        """A request whose response is delayed."""

        __slots__ = ()

        def reply_parts(self, parts: Sequence[Part]) -> None:
            """Answer later."""
            self.on_lost = None
            try:
                parts = read_files(parts)
            except (EOFError, OSError) as error:
                self.connection.close(f"a log cannot be read: {error}")
                return
            answer = partial(super().reply_parts, parts)

            def go_on() -> None:
                held.pop(answer, None)
                answer()

            held[answer] = loop.call_later(rule.delay_ms / 1_000, go_on)

    return LateRequest


def _with_topic_errors(rule: Rule) -> type[Request]:
    class MetadataWithErrors(Request):
        """A metadata request whose response has an error for each topic."""

        __slots__ = ()

        def reply_parts(self, parts: Sequence[Part]) -> None:
            """Put the error into the rows of the response."""
            from kio.schema.errors import ErrorCode

            assert rule.error is not None, "an api-error rule has an error"
            code = ErrorCode(int(rule.error))
            answer = decode_response(self.key, self.version, b"".join(cast("Sequence[Buffer]", parts)))
            topics = tuple(
                dataclasses.replace(topic, error_code=code, partitions=())
                if rule.topic in (None, topic.name)
                else topic
                for topic in answer.topics
            )
            super().reply_parts((encode_response(dataclasses.replace(answer, topics=topics)),))

    return MetadataWithErrors


def _acks_of(request: Request) -> int:
    try:
        return int(request.decode().acks)
    except DecodeError:
        return -1


def _partitions_in(row: Any) -> list[int | None]:
    """Return the partitions that a topic's row names; only None if it names none."""
    found: list[int | None] = []
    for field in dataclasses.fields(row):
        values = getattr(row, field.name)
        if not isinstance(values, tuple):
            continue
        for value in values:
            if isinstance(value, int) and "partition" in field.name:
                found.append(value)
            elif dataclasses.is_dataclass(value):
                numbers = (getattr(value, name, None) for name in _PARTITION_FIELDS)
                found.extend(number for number in numbers if isinstance(number, int))
    return found or [None]
