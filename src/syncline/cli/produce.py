"""`produce`: lines or JSON objects from standard input (or a file) into a topic."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import typer

from syncline.cli.target import (
    DEFAULT_DIRECTORY,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    client_config,
    parse_pairs,
)
from syncline.local.layout import LocalClusterError

FLUSH_TIMEOUT_S = 60.0
PROGRESS_EVERY_S = 2.0


class Message(NamedTuple):
    """One record to produce."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int
    partition: int


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(produce)


def produce(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read from here instead of standard input."),
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
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; repeatable."),
    ] = None,
    partition: Annotated[int, typer.Option("--partition", "-p", help="Produce to this partition (-1: by key).")] = -1,
    acks: Annotated[str, typer.Option(help="all, 1 or 0.")] = "all",
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Produce a record per line of standard input."""
    from confluent_kafka import KafkaException, Producer

    servers = bootstrap_of(bootstrap, data)
    admin_client(servers)
    headers: list[tuple[str, bytes | None]] = [
        (name, value.encode()) for name, value in parse_pairs(header, "--header").items()
    ]
    try:
        producer = Producer(
            client_config(
                servers, **{"acks": acks, "compression.type": compression, "enable.idempotence": acks == "all"}
            )
        )
    except KafkaException as error:
        raise LocalClusterError(f"cannot produce: {error.args[0].str()}") from None
    outcome = Outcome()
    source = file.open("rb") if file else sys.stdin.buffer
    try:
        for message in _messages(source, key_separator, from_json=from_json, headers=headers, partition=partition):
            _send(producer, topic, message, outcome)
    except LocalClusterError:
        # The lines before the bad one were good, and were taken.
        producer.flush(FLUSH_TIMEOUT_S)
        raise
    remaining = producer.flush(FLUSH_TIMEOUT_S)
    outcome.progress(is_last=True)
    if remaining or outcome.errors:
        reason = outcome.errors[0] if outcome.errors else f"no acknowledgement within {FLUSH_TIMEOUT_S:.0f} s"
        failed = len(outcome.errors) + remaining
        raise LocalClusterError(f"{failed} of {failed + outcome.count} records were not acknowledged: {reason}")
    if as_json:
        print(json.dumps({"topic": topic, "records": outcome.count}))
    else:
        print(f"{outcome.count} records acknowledged", file=sys.stderr)


class Outcome:
    """What became of the records so far."""

    def __init__(self) -> None:
        self.count = 0
        self.errors: list[str] = []
        self._shown_s = time.monotonic()
        self._has_shown = False

    def delivered(self, error: Any, _message: Any) -> None:
        """Count one record."""
        if error is not None:
            self.errors.append(error.str())
        else:
            self.count += 1

    def progress(self, *, is_last: bool = False) -> None:
        """Show how far it is, now and then, where a person watches."""
        if not sys.stderr.isatty() or (is_last and not self._has_shown):
            return
        if is_last or time.monotonic() - self._shown_s >= PROGRESS_EVERY_S:
            self._shown_s = time.monotonic()
            self._has_shown = True
            print(f"\r{self.count:,} acknowledged", end="\n" if is_last else "", file=sys.stderr, flush=True)


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
            # Refused by the client itself, a record too large for instance.
            outcome.delivered(error.args[0], None)
            break
    producer.poll(0)
    outcome.progress()


def _messages(
    source: IO[bytes],
    key_separator: str | None,
    *,
    from_json: bool,
    headers: list[tuple[str, bytes | None]],
    partition: int,
) -> Iterator[Message]:
    separator = key_separator.encode() if key_separator else None
    for number, raw in enumerate(source, start=1):
        line = raw.rstrip(b"\r\n")
        if from_json:
            yield _from_json(line, number, headers, partition)
            continue
        key: bytes | None = None
        if separator is not None:
            key, found, line = line.partition(separator)
            if not found:
                raise LocalClusterError(f"line {number} has no separator {key_separator!r}.")
        yield Message(key, line, headers, 0, partition)


def _from_json(line: bytes, number: int, headers: list[tuple[str, bytes | None]], partition: int) -> Message:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise LocalClusterError(f"line {number} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise LocalClusterError(f"line {number} is not a JSON object.")
    own = fields.get("headers") or {}
    if not isinstance(own, dict):
        raise LocalClusterError(f"line {number}: headers must be an object.")
    return Message(
        _bytes(fields.get("key")),
        _bytes(fields.get("value")),
        [*headers, *((name, _bytes(value)) for name, value in own.items())],
        _integer(fields.get("timestamp") or 0, "timestamp", number),
        _integer(fields.get("partition", partition), "partition", number),
    )


def _integer(value: Any, name: str, number: int) -> int:
    if type(value) is not int:
        raise LocalClusterError(f"line {number}: {name} must be an integer, not {value!r}.")
    return value


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()
