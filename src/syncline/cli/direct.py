"""Requests that the client library does not have, to any broker or to a certain one, over connections of our own.

confluent-kafka knows neither reassignments (45, 46) nor log directories (34, 35), and cannot name the configurations
of all brokers. Each broker gets one blocking connection when it is first asked. It says which versions it serves, and
the newest one that both sides know is used. A connection that fails is opened once more, for a broker that restarted.

A thread waits for each answer, so several brokers can be asked at once, and the command can go on without one that is
silent: a paused broker costs the patience once, and then nothing until it has answered its first request. What any
broker may answer is different: one that does not may itself wait for the controller, so it gets another connection for
what it alone can answer.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final, NamedTuple, Self

from syncline.cli.target import (
    CONNECT_STEP_S,
    CONNECT_TIMEOUT_S,
    PORT_DEFAULT,
    REQUEST_TIMEOUT_S,
    note_silence,
    reason_in_words,
)
from syncline.local.layout import LocalClusterError
from syncline.wire.api import ApiKey

CLIENT_ID: Final = "syncline-cli"
# The newest version of each message that this command understands.
_NEWEST: Final = {
    # Later ones name topics by their ids.
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 12,
    # Later ones ask about several groups at once.
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
# Any broker may answer these, and asking two changes nothing: so the next one is asked soon.
_READING: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)
# How long to wait for a broker that did not answer in time before.
LATE_AGAIN_S: Final = 1.0
# The first flexible one of FETCH.
_OLDEST: Final = {ApiKey.FETCH: 4, ApiKey.METADATA: 9, ApiKey.DESCRIBE_CONFIGS: 1, ApiKey.DESCRIBE_LOG_DIRS: 1}


class BrokerSilentError(LocalClusterError):
    """A broker cannot be reached, or closed the connection."""


class _Question(NamedTuple):
    """What one broker was asked, and until when the caller waits for it."""

    place: tuple[str, int]
    answer: Future[Any]
    began_s: float
    deadline_s: float
    # Which of the connections to this broker carries it, from 0 on.
    lane: int
    # Whether another broker may answer it as well, and it changes nothing.
    is_for_any: bool


class Direct:
    """Connections to the brokers of a cluster, and the way to ask them.

    `patience_s` is how long a broker may take to answer. If any broker may answer, the last one gets the usual time.
    """

    def __init__(self, bootstrap: str, patience_s: float = REQUEST_TIMEOUT_S) -> None:
        self._patience_s = patience_s
        self._bootstrap = [_address(each) for each in bootstrap.split(",")]
        self._places: dict[int, tuple[str, int]] = {}
        # By place and lane.
        self._lines: dict[tuple[tuple[str, int], int], _Line] = {}
        self._late: set[tuple[str, int]] = set()
        # The last question to each broker. The next one waits for its end: a connection carries one at a time.
        self._last: dict[tuple[str, int], _Question] = {}
        self._is_closed = False
        # Whether it is clear that there is a cluster.
        self._is_known = False
        # How long brokers were waited for in vain.
        self.wasted_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for line in list(self._lines.values()):
            line.close()
        self._lines.clear()

    def learn(self, places: Mapping[int, tuple[str, int]]) -> None:
        """Remember where brokers are."""
        self._places = dict(places)

    def is_late(self, broker: int) -> bool:
        """Return whether a broker has not answered in time what it was asked last."""
        return self._places.get(broker) in self._late

    def learn_brokers(self) -> tuple[int, ...]:
        """Ask any broker where all of them are; return their ids. Raises LocalClusterError."""
        fields = {"topics": (), "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        # A broker that serves answers this at once: it waits for no other.
        answer = self.ask(ApiKey.METADATA, fields, last_s=self._patience_s)
        self.learn({int(each.node_id): (str(each.host), int(each.port)) for each in answer.brokers})
        return tuple(sorted(self._places))

    def ask(self, key: ApiKey, fields: Mapping[str, Any], *, last_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Return the answer of the first broker that gives one. Raises LocalClusterError.

        A broker that is slow to answer may still do so while the next one is asked. The last one has `last_s`.
        """
        # A copy: threads that still wait for a silent broker add and remove lines.
        connected = [place for place, _ in list(self._lines)]
        known = list(dict.fromkeys([*connected, *self._bootstrap, *self._places.values()]))
        # Stable: among those that are not late, connected ones come first.
        known.sort(key=self._late.__contains__)
        asked: list[_Question] = []
        problem: Exception | None = None
        for place in known:
            is_last = place == known[-1]
            if is_last:
                patience_s = last_s
            else:
                patience_s = min(CONNECT_STEP_S, self._patience_s) if key in _READING else self._patience_s
            deadline_s = time.monotonic() + patience_s
            asked.append(self._begin(place, key, fields, deadline_s, is_for_any=key in _READING))
            while asked:
                # If the last one refuses, nobody else is left: those that were asked before get its time.
                question = self._first_ended(asked, deadline_s if is_last else asked[-1].deadline_s)
                if question is None:
                    break
                asked.remove(question)
                try:
                    return question.answer.result()
                except BrokerSilentError as error:
                    problem = error
        for question in asked:
            problem = _in_vain(question.place)
        servers = ",".join(f"{host}:{port}" for host, port in self._bootstrap)
        if asked and self._is_known:
            raise LocalClusterError(
                f"brokers answer at {servers}, but not to {key.name} ({problem}). They may be waiting for the "
                "controller, which may be silent: try again in some seconds."
            )
        raise LocalClusterError(f"no broker answers at {servers} ({problem}). Is the cluster up?")

    def ask_broker(self, broker: int, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Return the answer of one broker. Raises BrokerSilentError, also if nobody knows where it is."""
        return self._answer(self._begin_at(broker, key, fields))

    def ask_brokers(self, brokers: Iterable[int], key: ApiKey, fields: Mapping[str, Any]) -> dict[int, Any]:
        """Return the answers of those brokers that give one. All are asked at once."""
        return self.ask_each(key, dict.fromkeys(brokers, fields))

    def ask_each(self, key: ApiKey, fields_of: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        """Return the answers of those brokers that give one, each to its own question. All are asked at once."""
        asked = {}
        for broker, fields in fields_of.items():
            with contextlib.suppress(BrokerSilentError):
                asked[broker] = self._begin_at(broker, key, fields)
        answers = {}
        for broker, question in asked.items():
            with contextlib.suppress(BrokerSilentError):
                answers[broker] = self._answer(question)
        return answers

    def _begin_at(self, broker: int, key: ApiKey, fields: Mapping[str, Any]) -> _Question:
        place = self._places.get(broker)
        if place is None:
            raise BrokerSilentError(f"broker {broker} is not running")
        now_s = time.monotonic()
        last = self._last.get(place)
        if last is None or last.answer.done():
            return self._begin(place, key, fields, now_s + (LATE_AGAIN_S if place in self._late else self._patience_s))
        # Its patience began with what it has not answered yet.
        deadline_s = last.began_s + self._patience_s
        if last.is_for_any:
            # That it does not answer this says nothing about what it alone knows.
            deadline_s = max(deadline_s, now_s + LATE_AGAIN_S)
            return self._begin(place, key, fields, deadline_s, lane=last.lane + 1)
        if deadline_s <= now_s:
            raise _in_vain(place)
        return self._begin(place, key, fields, deadline_s)

    def _begin(
        self,
        place: tuple[str, int],
        key: ApiKey,
        fields: Mapping[str, Any],
        deadline_s: float,
        *,
        lane: int | None = None,
        is_for_any: bool = False,
    ) -> _Question:
        last = self._last.get(place)
        if lane is None:
            lane = 0 if last is None else last.lane
        elif last is not None and last.lane != lane:
            last = None
        question = _Question(place, Future(), time.monotonic(), deadline_s, lane, is_for_any)
        self._last[place] = question
        # A daemon: the command ends without waiting for a broker that is silent.
        threading.Thread(target=self._carry, args=(question, key, fields, last), daemon=True).start()
        return question

    def _answer(self, question: _Question) -> Any:
        """Return the answer to a question. Raises BrokerSilentError if it does not come in time."""
        if self._first_ended([question], question.deadline_s) is None:
            raise _in_vain(question.place)
        return question.answer.result()

    def _first_ended(self, asked: list[_Question], deadline_s: float) -> _Question | None:
        """Return a question that has ended, or None when they have had their time."""
        began_s = time.monotonic()
        patience_s = max(deadline_s - began_s, 0.0)
        answers = [each.answer for each in asked]
        done, _ = wait(answers, min(CONNECT_STEP_S, patience_s), FIRST_COMPLETED)
        if not done and patience_s > CONNECT_STEP_S:
            if not self._is_known:
                host, port = asked[-1].place
                note_silence(f"{host}:{port}", patience_s)
            done, _ = wait(answers, deadline_s - time.monotonic(), FIRST_COMPLETED)
        if done:
            return next(each for each in asked if each.answer in done)
        self.wasted_s += time.monotonic() - began_s
        self._late.add(asked[-1].place)
        return None

    def _carry(self, question: _Question, key: ApiKey, fields: Mapping[str, Any], last: _Question | None) -> None:
        """Put a question, in a thread of its own, when the one before has ended."""
        if last is not None:
            wait([last.answer])
        if last is not None and time.monotonic() > question.deadline_s:
            # Nobody wants it any more. A change that was given up must not come after those that followed it.
            question.answer.set_exception(_in_vain(question.place))
            return
        try:
            question.answer.set_result(self._ask(question.place, question.lane, key, fields))
        except BaseException as error:  # noqa: BLE001 - the thread that waits for the answer raises it
            question.answer.set_exception(error)

    def _ask(self, place: tuple[str, int], lane: int, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        for is_last in ((place, lane) not in self._lines, True):
            try:
                line = self._lines.get((place, lane))
                if line is None:
                    line = self._lines[place, lane] = _Line(place)
                if self._is_closed:
                    raise EOFError("the command has ended")
                answer = line.exchange(key, fields)
            except (OSError, EOFError) as error:
                stale = self._lines.pop((place, lane), None)
                if stale is not None:
                    stale.close()
                if isinstance(error, TimeoutError):
                    self._late.add(place)
                    raise _in_vain(place) from None
                if is_last or self._is_closed:
                    raise BrokerSilentError(f"{place[0]}:{place[1]}: {reason_in_words(str(error)) or error}") from None
            else:
                self._late.discard(place)
                self._is_known = True
                return answer
        raise AssertionError("the second try is the last one")


def _in_vain(place: tuple[str, int]) -> BrokerSilentError:
    return BrokerSilentError(f"{place[0]}:{place[1]}: it did not answer in time")


class _Line:
    """One connection."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        try:
            self._socket = socket.create_connection(place, CONNECT_TIMEOUT_S)
        except UnicodeError:
            raise OSError("there is no such host") from None
        self._correlation_id = 0
        self._served: dict[int, tuple[int, int]] = {}

    def close(self) -> None:
        # Closing alone does not wake a thread that waits for an answer.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def exchange(self, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Return the answer to a request in the newest version that both sides know. Raises LocalClusterError."""
        from syncline.wire.codec import decode_response, encode_request, request_type
        from syncline.wire.entities import build
        from syncline.wire.errors import DecodeError

        self._socket.settimeout(REQUEST_TIMEOUT_S)
        version = self._version(key)
        body = encode_request(build(request_type(key, version), fields))
        try:
            return decode_response(key, version, self._answer(key, version, body))
        except DecodeError as error:
            host, port = self._place
            raise LocalClusterError(
                f"the broker at {host}:{port} sent a response that cannot be read: {error}"
            ) from None

    def _version(self, key: ApiKey) -> int:
        if not self._served:
            from syncline.wire.codec import decode_response

            answer = decode_response(ApiKey.API_VERSIONS, 0, self._answer(ApiKey.API_VERSIONS, 0, b""))
            self._served = {int(row.api_key): (int(row.min_version), int(row.max_version)) for row in answer.api_keys}
        oldest, newest = self._served.get(key, (0, -1))
        version = min(newest, _NEWEST[key])
        if version < max(oldest, _OLDEST.get(key, 0)):
            host, port = self._place
            raise LocalClusterError(
                f"the broker at {host}:{port} does not support {key.name} in a version that this command knows."
            )
        return version

    def _answer(self, key: ApiKey, version: int, body: bytes) -> memoryview:
        from syncline.wire.api import response_header_version
        from syncline.wire.frames import frame_request
        from syncline.wire.response_header import response_body_position

        self._correlation_id += 1
        self._socket.sendall(b"".join(frame_request(key, version, self._correlation_id, CLIENT_ID, [body])))
        (size,) = struct.unpack(">i", self._receive(4))
        frame = memoryview(self._receive(size))
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != self._correlation_id:
            raise EOFError("an answer belongs to another request")
        return frame[response_body_position(frame, response_header_version(key, version)) :]

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError("the connection was closed")
            data += part
        return bytes(data)


def refuse_errors(what: str, code: int, message: str | None) -> None:
    """Raise `LocalClusterError` if an answer has an error code: what failed, why, and Kafka's name for it."""
    if code:
        raise LocalClusterError(f"{what}: {error_text(code, message)}")


def error_text(code: int, message: str | None) -> str:
    """Return an error of an answer as text: the broker's message and Kafka's name for the code."""
    from syncline.model.errors import ErrorCode

    known = next((each.name for each in ErrorCode if each == code), f"error {code}")
    return f"{message} ({known})" if message else known


def _address(text: str) -> tuple[str, int]:
    server = text.strip().rpartition("://")[2]
    if server.endswith("]") or ":" not in server:
        return server.strip("[]"), int(PORT_DEFAULT)
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
