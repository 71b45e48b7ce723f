"""`consume`: records of a topic to standard output, as lines or JSON.

Into a pipe or file, lines are the bytes of the records. On a terminal,
unprintable characters are escaped, so that a record cannot control it.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from syncline.cli.ends import Place, known_offsets, leaders_of
from syncline.cli.signals import interrupts
from syncline.cli.target import (
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    client_config,
    find_topic,
    guarded,
    no_partition,
    sentence_of,
)
from syncline.cli.unreadable import PATIENCE_S, Unreadable, behind, unreadable
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError

POLL_S = 0.2
BATCH = 500
# To join a group takes some seconds: the first members wait for others (`group.initial.rebalance.delay.ms`).
JOIN_S = 10.0
# How long nothing may arrive before partitions are asked why. What they say twice does not pass by itself.
SILENCE_S = 5.0
# How soon to look again whether a partition has another leader.
LOOK_AGAIN_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Show the records of a topic.")(consume)


@dataclass
class Reading:
    """What to read, and the progress so far."""

    topic: str
    group: str | None
    limit: int | None
    timeout_s: float | None
    keys: bool
    as_json: bool
    # The end of each unfinished partition; None: no end.
    stops: dict[int, int] | None = None
    # The offset that is due in each partition, where the group has not committed another one.
    places: dict[int, int] = field(default_factory=dict)
    # What was said last of partitions that give nothing.
    unreadable: list[Unreadable] = field(default_factory=list)
    shown: int = 0
    # The offset after the last record shown, of partitions with something to commit.
    to_commit: dict[int, int] = field(default_factory=dict)
    # Since when there are partitions to read from; None while a group is joined.
    assigned_s: float | None = 0.0

    def joined(self, _consumer: Any, _partitions: Any) -> None:
        """Record that the group has assigned partitions."""
        self.assigned_s = time.monotonic()

    def is_idle_since(self, began_s: float) -> bool:
        """Whether no record arrived for as long as --timeout says; to join a group takes seconds more."""
        if self.timeout_s is None:
            return False
        since_s = began_s + JOIN_S if self.assigned_s is None else max(began_s, self.assigned_s)
        return time.monotonic() - since_s >= self.timeout_s

    @property
    def is_done(self) -> bool:
        """Whether all requested records are shown."""
        return (self.limit is not None and self.shown >= self.limit) or (self.stops is not None and not self.stops)


def consume(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    from_offset: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="Start at earliest, latest or an offset. A group continues from its committed offsets.",
        ),
    ] = "earliest",
    until: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="Stop before this offset, or at `end`: where the topic ends now."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Join this group and commit the offsets of the records shown.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Stop after this many records.", min=1)] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", help="Stop when no record arrives for this many seconds.", min=0)
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Show KEY<tab>VALUE.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show records, and wait for more until Ctrl-C (or --until, --limit, --timeout).

    With --json, each line is an object: topic, partition, offset, timestamp, key, value, headers.
    """
    from confluent_kafka import Consumer

    start = _number(from_offset, "--from", ("earliest", "latest"))
    stop = None if until is None else _number(until, "--until", ("end",))
    if group is not None and (isinstance(start, int) or partition is not None):
        raise LocalClusterError(
            "--group reads all partitions from the group's committed offsets: leave out --partition, and "
            "give --from no offset. `syncline groups reset-offsets` moves a group's offsets."
        )
    if group == "":
        raise LocalClusterError("--group takes a name.")
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    reading = Reading(topic, group, limit, timeout_s, keys, as_json)

    def look(*, is_last: bool) -> None:
        _look_why(consumer, reading, servers, admin, is_last=is_last)

    consumer = Consumer(
        client_config(
            servers,
            **{
                "group.id": group or "syncline-cli",
                "enable.auto.commit": False,
                # Else damaged records would be shown as if they were what producers sent.
                "check.crcs": True,
                "auto.offset.reset": "latest" if start == "latest" else "earliest",
                # A partition may end before --until, if the group has no new records in it, or if it has none at all.
                "enable.partition.eof": until is not None,
                "error_cb": _note_outage,
            },
        )
    )
    with interrupts():
        try:
            lows, highs = _bounds(admin, topic, partition)
            _start(consumer, reading, lows, highs, start, stop)
            while not reading.is_done:
                if not _show_some(consumer, reading, look):
                    break
        finally:
            # A group waits a whole session for a member that does not leave it.
            consumer.close()


def _number(text: str, option: str, words: tuple[str, ...]) -> str | int:
    if text in words:
        return text
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise LocalClusterError(f"{option} takes {', '.join(words)} or an offset, not {text!r}.")
    return int(text)


def _note_outage(error: Any) -> None:
    from confluent_kafka import KafkaError

    if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its public name
        print("syncline: no broker answers; waiting for the cluster (Ctrl-C stops)", file=sys.stderr)


def _bounds(admin: Any, topic: str, partition: int | None) -> list[dict[int, int]]:
    """Return where the partitions begin and where they end. A leader that does not answer may soon have a successor."""
    from confluent_kafka.admin import OffsetSpec

    deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
    is_waiting = False
    while True:
        leaders = leaders_of(topic, _selected(admin, topic, partition))
        troubles: dict[Place, str] = {}
        specs = OffsetSpec.earliest(), OffsetSpec.latest()
        found = [known_offsets(admin, leaders, spec, troubles) for spec in specs]
        if not troubles:
            return [{index: offset for (_, index), offset in each.items()} for each in found]
        (_, index), why = next(iter(troubles.items()))
        trouble = f"cannot read offsets of {topic}-{index}: {why}"
        if time.monotonic() >= deadline_s:
            raise LocalClusterError(trouble)
        if not is_waiting:
            is_waiting = True
            print(f"syncline: {trouble}; waiting for another leader (Ctrl-C stops)", file=sys.stderr)
        time.sleep(LOOK_AGAIN_S)


def _selected(admin: Any, topic: str, partition: int | None) -> Mapping[int, Any]:
    partitions: Mapping[int, Any] = find_topic(admin, topic).partitions
    if partition is None:
        return partitions
    if partition not in partitions:
        raise no_partition(topic, partition, len(partitions))
    return {partition: partitions[partition]}


def _start(
    consumer: Any,
    reading: Reading,
    lows: Mapping[int, int],
    highs: Mapping[int, int],
    start: str | int,
    stop: str | int | None,
) -> None:
    """Assign or subscribe; `lows` and `highs` are where each partition begins and ends."""
    from confluent_kafka import TopicPartition

    partitions = sorted(lows)
    if stop is not None:
        reading.stops = dict.fromkeys(partitions, stop) if isinstance(stop, int) else dict(highs)
    reading.places = dict(highs if start == "latest" else lows)
    if reading.group is not None:
        reading.assigned_s = None
        guarded("cannot join the group", lambda: consumer.subscribe([reading.topic], on_assign=reading.joined))
        return
    if isinstance(start, int):
        starts = reading.places = dict.fromkeys(partitions, start)
        for index in partitions:
            if not lows[index] <= start <= highs[index]:
                raise LocalClusterError(
                    f"offset {start} is out of range: {reading.topic}-{index} holds {lows[index]} to "
                    f"{highs[index]} "
                    f"(exclusive).{'' if len(partitions) == 1 else ' --partition selects one partition.'}"
                )
    else:
        starts = reading.places
    consumer.assign([TopicPartition(reading.topic, index, offset) for index, offset in starts.items()])
    if reading.stops is not None:
        reading.stops = {index: end for index, end in reading.stops.items() if starts[index] < end}


def _show_some(consumer: Any, reading: Reading, look: Callable[..., None]) -> bool:
    """Show records that have arrived; return False if none arrived within --timeout."""
    from confluent_kafka import KafkaError

    wait_s = POLL_S if reading.timeout_s is None else min(POLL_S, reading.timeout_s)
    began_s = looked_s = time.monotonic()
    while True:
        # Polling for many records would wait for all of them, or until the timeout.
        messages = consumer.consume(1, wait_s)
        if messages:
            wanted = BATCH if reading.limit is None else min(BATCH, reading.limit - reading.shown)
            messages += consumer.consume(wanted - 1, 0) if wanted > 1 else []
            break
        if reading.is_idle_since(began_s):
            look(is_last=True)
            return False
        if reading.assigned_s is not None and time.monotonic() - looked_s >= SILENCE_S:
            look(is_last=False)
            looked_s = time.monotonic()
    lines: list[bytes] = []
    failure: LocalClusterError | None = None
    for message in messages:
        error = message.error()
        if error is None:
            _take(message, reading, lines)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            _end(reading.stops, message)
        elif error.fatal() or not error.retriable():
            failure = _failure(message, error)
            break
    if lines:
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        _commit(consumer, reading)
    if failure is not None:
        raise failure
    return True


def _failure(message: Any, error: Any) -> LocalClusterError:
    """Return what ends the command: an error that does not pass, and of which partition."""
    from confluent_kafka import KafkaError

    where = "" if message.topic() is None else f" {message.topic()}-{message.partition()}"
    if error.code() == KafkaError._BAD_MSG:  # noqa: SLF001 - its public name
        return LocalClusterError(
            f"cannot consume{where}: the batch at offset {message.offset()} is damaged: {error.str()}. "
            f"{behind(message.partition())}"
        )
    return LocalClusterError(f"cannot consume{where}: {sentence_of(error)}")


def _look_why(consumer: Any, reading: Reading, servers: str, admin: Any, *, is_last: bool) -> None:
    """Say of which partitions nothing can be read; `LocalClusterError` if that does not pass."""
    before = reading.unreadable
    reading.unreadable = found = unreadable(servers, admin, reading.topic, _due(consumer, reading))
    for each in found:
        what = f"cannot read {reading.topic}-{each.partition} from offset {each.offset} on: {each.why}"
        if each.advice is not None and (is_last or each in before):
            raise LocalClusterError(f"{what}. {each.advice}")
        if each not in before:
            print(f"syncline: {what}; waiting (Ctrl-C stops)", file=sys.stderr)


def _due(consumer: Any, reading: Reading) -> dict[int, int]:
    """Return the offset that is due in each unfinished partition that this command reads."""
    from confluent_kafka import KafkaException

    assigned = consumer.assignment()
    places = dict(reading.places)
    if reading.group is not None:
        with contextlib.suppress(KafkaException):
            committed = consumer.committed(assigned, timeout=PATIENCE_S)
            places |= {each.partition: each.offset for each in committed if each.offset >= 0}
    unfinished = [each.partition for each in assigned if reading.stops is None or each.partition in reading.stops]
    return {index: places[index] for index in sorted(unfinished) if index in places}


def _take(message: Any, reading: Reading, lines: list[bytes]) -> None:
    """Show a record, unless it lies beyond the end."""
    index, offset = message.partition(), message.offset()
    reading.places[index] = offset + 1
    if reading.stops is not None:
        stop = reading.stops.get(index)
        if stop is None or offset + 1 >= stop:
            reading.stops.pop(index, None)
        if stop is None or offset >= stop:
            return
    lines.append(_line(message, reading))
    reading.shown += 1
    reading.to_commit[index] = offset + 1


def _end(stops: dict[int, int] | None, end: Any) -> None:
    """Handle the end of a partition: the partition is finished if its reading stops there."""
    if stops is not None and end.offset() >= stops.get(end.partition(), 0):
        stops.pop(end.partition(), None)


def _commit(consumer: Any, reading: Reading) -> None:
    from confluent_kafka import TopicPartition

    if reading.group is None or not reading.to_commit:
        return
    places = [TopicPartition(reading.topic, index, offset) for index, offset in reading.to_commit.items()]
    reading.to_commit.clear()
    guarded("cannot commit", lambda: consumer.commit(offsets=places, asynchronous=False))


def _line(message: Any, reading: Reading) -> bytes:
    if reading.as_json:
        headers = [(name, _text(value)) for name, value in message.headers() or []]
        # A name may occur twice, which an object cannot hold.
        is_unique = len(dict(headers)) == len(headers)
        record = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": _text(message.key()),
            "value": _text(message.value()),
            "headers": dict(headers) if is_unique else headers,
        }
        return json.dumps(record, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
    parts = [message.key(), message.value()] if reading.keys else [message.value()]
    if sys.stdout.isatty():
        return "\t".join(_readable(part) for part in parts).encode(errors="backslashreplace") + b"\n"
    return b"\t".join(part or b"" for part in parts) + b"\n"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _readable(data: bytes | None) -> str:
    """Return text without control sequences of terminals."""
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in _text(data) or ""
    )
