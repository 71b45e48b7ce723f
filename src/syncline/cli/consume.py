"""`consume`: records of a topic to standard output, as lines or JSON."""

import json
import sys
import time
from typing import Annotated, Any

import typer

from syncline.cli.target import (
    DEFAULT_DIRECTORY,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    client_config,
    guarded,
)
from syncline.local.layout import LocalClusterError

POLL_S = 0.2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(consume)


def consume(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    from_offset: Annotated[
        str, typer.Option("--from", help="earliest, latest or an offset; not with --group.")
    ] = "earliest",
    until: Annotated[
        str | None,
        typer.Option("--until", help="Stop at this offset (exclusive), or at `end`: where the topic ends now."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Join this group and commit what is shown.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Stop after so many records.", min=1)] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", help="Stop when nothing came for so many seconds.", min=0)
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Show KEY<tab>VALUE.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show records, and wait for more until Ctrl-C (or --until, --limit, --timeout)."""
    from confluent_kafka import Consumer

    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    found = guarded("cannot read the topic", lambda: admin.list_topics(topic, timeout=REQUEST_TIMEOUT_S))
    if found.topics[topic].error is not None:
        raise LocalClusterError(f"there is no topic {topic!r}. `syncline topics list` shows those that are.")
    consumer = Consumer(
        client_config(
            servers,
            **{
                "group.id": group or "syncline-cli",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest" if from_offset == "latest" else "earliest",
                # A partition may end with less than --until promised: nothing new for a group, or no records at all.
                "enable.partition.eof": until is not None,
            },
        )
    )
    try:
        stops = _start(consumer, topic, from_offset, until, partition, group)
        _show(consumer, stops, group, limit, timeout_s, keys=keys, as_json=as_json)
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


def _start(
    consumer: Any, topic: str, from_offset: str, until: str | None, partition: int | None, group: str | None
) -> dict[int, int] | None:
    """Assign or subscribe; return where each partition ends, None for "never"."""
    from confluent_kafka import TopicPartition

    metadata = guarded("cannot read the topic", lambda: consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S))
    partitions = sorted(metadata.topics[topic].partitions)
    if partition is not None:
        if partition not in partitions:
            raise LocalClusterError(f"topic {topic!r} has partitions 0 to {len(partitions) - 1}, not {partition}.")
        partitions = [partition]
    bounds = {
        index: guarded(
            "cannot read offsets",
            lambda index=index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=REQUEST_TIMEOUT_S),  # type: ignore[misc]
        )
        for index in partitions
    }
    stops = None
    if until == "end":
        stops = {index: high for index, (_, high) in bounds.items()}
    elif until is not None:
        stops = dict.fromkeys(partitions, _number(until, "--until"))
    if group:
        consumer.subscribe([topic])
        return stops
    if from_offset == "earliest":
        starts = {index: low for index, (low, _) in bounds.items()}
    elif from_offset == "latest":
        starts = {index: high for index, (_, high) in bounds.items()}
    else:
        starts = dict.fromkeys(partitions, _number(from_offset, "--from"))
        for index, (low, high) in bounds.items():
            if not low <= starts[index] <= high:
                raise LocalClusterError(
                    f"offset {starts[index]} is outside {topic}-{index}, which holds {low} to {high} (exclusive)."
                )
    consumer.assign([TopicPartition(topic, index, offset) for index, offset in starts.items()])
    if stops is not None:
        stops = {index: stop for index, stop in stops.items() if starts[index] < stop}
    return stops


def _number(text: str, option: str) -> int:
    if not text.isdigit():
        raise LocalClusterError(f"{option} takes an offset or a word from its help, not {text!r}.")
    return int(text)


def _show(
    consumer: Any,
    stops: dict[int, int] | None,
    group: str | None,
    limit: int | None,
    timeout_s: float | None,
    *,
    keys: bool,
    as_json: bool,
) -> None:
    from confluent_kafka import KafkaError

    shown = committed = 0
    last_s = time.monotonic()
    while (limit is None or shown < limit) and (stops is None or stops):
        messages = consumer.consume(min(500, (limit or 500) - shown if limit else 500), POLL_S)
        if not messages and timeout_s is not None and time.monotonic() - last_s >= timeout_s:
            return
        for message in messages:
            if message.error():
                if message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    _end(stops, message)
                    continue
                raise LocalClusterError(f"cannot consume: {message.error().str()}")
            last_s = time.monotonic()
            stop = None if stops is None else stops.get(message.partition())
            if stops is not None and (stop is None or message.offset() >= stop):
                stops.pop(message.partition(), None)
                continue
            _print(message, keys=keys, as_json=as_json)
            shown += 1
            if stops is not None and stop is not None and message.offset() + 1 >= stop:
                stops.pop(message.partition(), None)
        sys.stdout.flush()
        if group and shown > committed:
            committed = shown
            guarded("cannot commit", lambda: consumer.commit(asynchronous=False))


def _end(stops: dict[int, int] | None, end: Any) -> None:
    """Note that a partition holds nothing more: it is done if that is where it should stop."""
    if stops is not None and end.offset() >= stops.get(end.partition(), 0):
        stops.pop(end.partition(), None)


def _print(message: Any, *, keys: bool, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "topic": message.topic(),
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "timestamp": message.timestamp()[1],
                    "key": _text(message.key()),
                    "value": _text(message.value()),
                    "headers": {name: _text(value) for name, value in message.headers() or []},
                },
                ensure_ascii=False,
            )
        )
    elif keys:
        print(f"{_text(message.key()) or ''}\t{_text(message.value()) or ''}")
    else:
        print(_text(message.value()) or "")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
