"""`produce`: lines or JSON objects from standard input (or a file) into a topic."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import typer

from syncline.cli.signals import interrupts
from syncline.cli.target import (
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    client_config,
    counted,
    guarded,
    parse_pairs,
    refuse,
    sentence_of,
    topic_names,
)
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.core.cluster.topic_names import what_is_wrong
from syncline.local.layout import LocalClusterError
from syncline.model.errors import ErrorCode

# A record without an acknowledgement for this long has failed.
MESSAGE_TIMEOUT_S = 60.0
FLUSH_TIMEOUT_S = MESSAGE_TIMEOUT_S + 5.0
FLUSH_STEP_S = 0.2
PROGRESS_EVERY_S = 2.0
ACKS = ("all", "-1", "1", "0")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# The largest request that brokers read; they enforce the limit per record themselves.
RECORD_BYTES_MAX = 100 << 20


# Errors while a cluster creates a topic.
_SOON = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
# `consume --json` also prints `topic` and `offset`; its output can be produced again.
_FIELDS = {"key", "value", "headers", "timestamp", "partition", "topic", "offset"}


class Message(NamedTuple):
    """One record to produce."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int
    partition: int


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Produce one record per line of standard input.")(produce)


def produce(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read this file instead of standard input."),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Lines are KEY<separator>VALUE.")
    ] = None,
    from_json: Annotated[
        bool,
        typer.Option(
            "--json-input",
            help='Lines are JSON objects: {"key":, "value":, "headers": {}, "timestamp":, "partition":}.',
        ),
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header to add to every record; repeatable."),
    ] = None,
    partition: Annotated[
        int, typer.Option("--partition", "-p", help="Produce to this partition (-1: choose by key).")
    ] = -1,
    acks: Annotated[str, typer.Option(help="all, 1 or 0.")] = "all",
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Produce one record per line of standard input (or --file), and wait until all are acknowledged."""
    from confluent_kafka import Producer

    _check(acks, "--acks", ACKS)
    _check(compression, "--compression", COMPRESSIONS)
    if key_separator == "":
        raise LocalClusterError("--key-separator takes one character or more, not ''.")
    if key_separator is not None and from_json:
        raise LocalClusterError('--json-input takes the key from the field "key": leave out --key-separator.')
    headers: list[tuple[str, bytes | None]] = [
        (name, os.fsencode(value)) for name, value in parse_pairs(header, "--header").items()
    ]
    servers = bootstrap_of(bootstrap, data)
    partitions = _partitions(admin_client(servers), topic)
    producer = Producer(
        client_config(
            servers,
            **{
                "acks": acks,
                "compression.type": compression,
                "enable.idempotence": acks in ("all", "-1"),
                "message.timeout.ms": int(MESSAGE_TIMEOUT_S * 1000),
                "message.max.bytes": RECORD_BYTES_MAX,
            },
        )
    )
    outcome = Outcome()
    if file is None and sys.stdin is None:
        raise LocalClusterError("there is no standard input; name a file with --file.")
    if file is None and sys.stdin.isatty():
        print("one record per line; Ctrl-D ends the input", file=sys.stderr)
    with interrupts(), _interruption_told(producer, outcome):
        try:
            with file.open("rb") if file else contextlib.nullcontext(sys.stdin.buffer) as source:
                messages = _messages(source, key_separator, from_json, headers, partition)
                _send_all(producer, topic, messages, partitions, outcome)
        except OSError as error:
            _flush(producer, outcome)
            raise LocalClusterError(f"cannot read {file or 'standard input'}: {error.strerror}.") from None
        _flush(producer, outcome)
    if outcome.failures:
        total = outcome.failures + outcome.count
        hint = (
            " A compacted topic accepts only records with a key." if "INVALID_RECORD" in outcome.first_failure else ""
        )
        raise LocalClusterError(
            f"{outcome.failures} of {counted(total, 'record')} not acknowledged: {outcome.first_failure}.{hint}"
        )
    if as_json:
        print(json.dumps({"topic": topic, "records": outcome.count}))
    else:
        print(f"{counted(outcome.count, 'record')} acknowledged", file=sys.stderr)


def _check(value: str, option: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise LocalClusterError(f"{option} takes {', '.join(known)}, not {value!r}.")


def _partitions(admin: Any, name: str) -> int:
    """Return how many partitions a topic has; a cluster that auto-creates topics creates it now."""
    problem = what_is_wrong(name)
    if problem is not None:
        raise LocalClusterError(f"topic name is invalid: {problem}.")
    found = topic_names(admin).get(name)
    if found is None:
        found = _made_by_the_cluster(admin, name)
    return len(found.partitions)


def _made_by_the_cluster(admin: Any, name: str) -> Any:
    """Return the topic, auto-creating it."""
    if not _makes_topics(admin):
        raise LocalClusterError(
            f"there is no topic {name!r}, and the cluster does not create topics automatically. Create it "
            f"with `syncline topics create {name}`."
        )
    what = f"cannot produce to topic {name!r}"
    deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
    while time.monotonic() < deadline_s:
        topic = guarded(what, lambda: admin.list_topics(name, timeout=REQUEST_TIMEOUT_S)).topics[name]
        if topic.error is None and topic.partitions:
            made = counted(len(topic.partitions), "partition")
            print(f"there was no topic {name!r}: the cluster created it, {made}", file=sys.stderr)
            return topic
        if topic.error is not None and ErrorCode(topic.error.code()) not in _SOON:
            refuse(what, topic.error)
        time.sleep(0.05)
    raise LocalClusterError(
        f"there is no topic {name!r}, and the cluster did not create it within {REQUEST_TIMEOUT_S:.0f} s. "
        f"Create it with `syncline topics create {name}`."
    )


def _makes_topics(admin: Any) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    brokers = guarded("cannot list brokers", lambda: admin.list_topics(timeout=REQUEST_TIMEOUT_S)).brokers
    resource = ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))
    try:
        entries = admin.describe_configs([resource])[resource].result(REQUEST_TIMEOUT_S)
    except (KafkaException, TimeoutError):
        # A user who may produce may lack the right to read configurations: try to produce.
        return True
    return "auto.create.topics.enable" not in entries or entries["auto.create.topics.enable"].value != "false"


def _flush(producer: Any, outcome: "Outcome") -> None:
    """Wait for all acknowledgements, in steps, so that Ctrl-C works and progress shows."""
    deadline_s = time.monotonic() + FLUSH_TIMEOUT_S
    while (remaining := producer.flush(FLUSH_STEP_S)) and time.monotonic() < deadline_s:
        outcome.progress()
    outcome.progress(is_last=True)
    if remaining:
        outcome.failed(f"no acknowledgement within {FLUSH_TIMEOUT_S:.0f} s", remaining)


class Outcome:
    """How many records were acknowledged or failed so far."""

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.first_failure = ""
        self._shown_s = time.monotonic()
        self._has_shown = False

    def delivered(self, error: Any, _message: Any) -> None:
        """Count one record."""
        if error is not None:
            self.failed(sentence_of(error))
        else:
            self.count += 1

    def failed(self, why: str, count: int = 1) -> None:
        """Count records that were not acknowledged."""
        self.first_failure = self.first_failure or why
        self.failures += count

    def progress(self, *, is_last: bool = False) -> None:
        """Show progress from time to time if standard error is a terminal."""
        if not sys.stderr.isatty() or (is_last and not self._has_shown):
            return
        if is_last or time.monotonic() - self._shown_s >= PROGRESS_EVERY_S:
            self._shown_s = time.monotonic()
            self._has_shown = True
            print(f"\r{self.count:,} acknowledged", end="\n" if is_last else "", file=sys.stderr, flush=True)


def _send_all(
    producer: Any, topic: str, messages: Iterator[tuple[int, Message]], partitions: int, outcome: Outcome
) -> None:
    """Produce the messages; at a line that is none, say what is acknowledged."""
    try:
        for number, message in messages:
            if not -1 <= message.partition < partitions:
                raise LocalClusterError(
                    f"line {number}: topic {topic!r} has partitions 0 to {partitions - 1}, not {message.partition}."
                )
            _send(producer, topic, message, outcome)
    except LocalClusterError as error:
        # The lines before the bad one were valid, and are produced.
        _flush(producer, outcome)
        raise LocalClusterError(f"{error} {counted(outcome.count, 'record')} before that acknowledged.") from None


@contextlib.contextmanager
def _interruption_told(producer: Any, outcome: Outcome) -> Iterator[None]:
    """Say what is acknowledged if a signal ends the command inside."""
    try:
        yield
    except KeyboardInterrupt:
        producer.flush(FLUSH_STEP_S)
        print(
            f"\nsyncline: interrupted: {counted(outcome.count, 'record')} acknowledged, {len(producer)} unknown",
            file=sys.stderr,
        )
        raise


def _send(producer: Any, topic: str, message: Message, outcome: Outcome) -> None:
    from confluent_kafka import KafkaException

    optional: dict[str, Any] = {}
    if message.timestamp_ms:
        optional["timestamp"] = message.timestamp_ms
    if message.partition >= 0:
        optional["partition"] = message.partition
    while True:
        try:
            producer.produce(
                topic, message.value, message.key, headers=message.headers, on_delivery=outcome.delivered, **optional
            )
            break
        except BufferError:
            producer.poll(0.1)
            outcome.progress()
        except KafkaException as error:
            # The client itself refused it, for instance as too large.
            outcome.delivered(error.args[0], None)
            break
    producer.poll(0)
    outcome.progress()


def _messages(
    source: IO[bytes],
    key_separator: str | None,
    from_json: bool,
    headers: list[tuple[str, bytes | None]],
    partition: int,
) -> Iterator[tuple[int, Message]]:
    """Return a record per line, with the line's number."""
    separator = None if key_separator is None else os.fsencode(key_separator)
    for number, raw in enumerate(source, start=1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if from_json:
            yield number, _from_json(line, number, headers, partition)
            continue
        key: bytes | None = None
        if separator is not None:
            key, found, line = line.partition(separator)
            if not found:
                raise LocalClusterError(f"line {number} has no separator {key_separator!r}.")
        yield number, Message(key, line, headers, 0, partition)


def _from_json(line: bytes, number: int, headers: list[tuple[str, bytes | None]], partition: int) -> Message:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LocalClusterError(f"line {number} is not JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise LocalClusterError(f"line {number} is not a JSON object.")
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise LocalClusterError(
            f"line {number} has an unknown field {min(unknown)!r}; the known fields are {', '.join(sorted(_FIELDS))}."
        )
    own = fields.get("headers") or []
    pairs = list(own.items()) if isinstance(own, dict) else own
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise LocalClusterError(f"line {number}: headers must be an object, or a list of [name, value].")
    try:
        return Message(
            _bytes(fields.get("key")),
            _bytes(fields.get("value")),
            [*headers, *((name.encode().decode(), _bytes(value)) for name, value in pairs)],
            _integer(fields.get("timestamp") or 0, "timestamp", number, 0),
            _integer(fields.get("partition", partition), "partition", number, -1),
        )
    except UnicodeEncodeError as error:
        raise LocalClusterError(f"line {number} is not text: {error.reason}.") from None


def _integer(value: Any, name: str, number: int, least: int) -> int:
    if type(value) is not int or not least <= value < 1 << 63:
        raise LocalClusterError(f"line {number}: {name} must be an integer of at least {least}, not {value!r}.")
    return value


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()
