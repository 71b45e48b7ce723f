"""Which cluster a command connects to, and how it prints that cluster's errors.

`--bootstrap` names any Kafka-compatible cluster, Apache Kafka included; without
it, commands use the cluster of the data directory, so that local use needs no
ports.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from syncline.local.layout import Layout, LocalClusterError
from syncline.model.errors import ErrorCode
from syncline.reassign.errors import PlanError

_T = TypeVar("_T")

REQUEST_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 5.0
# For how long a command that shows something waits for a broker that is silent, and then shows the rest and says what
# is missing. A busy machine answers within this time. All brokers are asked at once, so two of them take no longer.
SILENT_S = 5.0
# Every address that refuses connections has done so by then. A command that waits longer says for what.
CONNECT_STEP_S = 1.0
PORT_DEFAULT = "9092"
_REASONS = {
    "Connection refused": "the connection is refused",
    "resolve": "there is no such host",
    "timed out": "the connection times out",
}
_SERVER = re.compile(r"(?:[A-Z_]+://)?(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        help="Cluster to connect to (default: the local cluster in --data).",
    ),
]
# Whether it may be read is for the command to say: it is private to the user who started the cluster.
DataOption = Annotated[Path, typer.Option("--data", help="Data directory of a local cluster.", readable=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def bootstrap_of(bootstrap: str | None, data: Path) -> str:
    """Return the servers to connect to."""
    if bootstrap is not None:
        return checked_bootstrap(bootstrap)
    running = Layout(data.absolute()).running()
    if running is None:
        raise LocalClusterError(
            f"no cluster is running in {data}. Start one with `syncline up`, or name one with --bootstrap HOST:PORT."
        )
    return running.bootstrap


def checked_bootstrap(bootstrap: str) -> str:
    """Return the servers without blanks; `LocalClusterError` names one that is not an address."""
    servers = [each.strip() for each in bootstrap.split(",")]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not server.isprintable() or not 0 < int(match["port"] or PORT_DEFAULT) < 65_536:
            raise LocalClusterError(
                f"--bootstrap takes HOST:PORT (several separated by commas), with ports up to 65535, not {server!r}."
            )
    return ",".join(servers)


def client_config(bootstrap: str, **more: Any) -> dict[str, Any]:
    """Return a confluent-kafka configuration that prints no log lines to the terminal."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.ms": 50, **more}


def admin_client(bootstrap: str) -> Any:
    """Return an admin client whose cluster answers; `LocalClusterError` otherwise."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    troubles: list[Any] = []
    has_noted = False
    admin = AdminClient(client_config(bootstrap, error_cb=troubles.append))
    deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            admin.list_topics(timeout=CONNECT_STEP_S)
            break
        except KafkaException:
            admin.poll(0)
            said = " ".join(each.str() for each in troubles)
            if "brokers are down" not in said and time.monotonic() < deadline_s:
                if not has_noted:
                    note_silence(bootstrap, CONNECT_TIMEOUT_S)
                    has_noted = True
                continue
            reason = reason_in_words(said)
            why = f" ({reason})" if reason else ""
            raise LocalClusterError(f"no broker answers at {bootstrap}{why}. Is the cluster up?") from None
    return admin


def note_silence(servers: str, patience_s: float) -> None:
    """Say on standard error who is waited for: an address may be wrong, or a broker paused."""
    print(f"syncline: no answer from {servers} yet; waiting for up to {patience_s:.0f} s", file=sys.stderr, flush=True)


def topic_names(admin: Any) -> dict[str, Any]:
    """Return the metadata of all topics by name. A request for one topic could create it.

    The client library asks any broker. If that one is silent, the next try may go to another; it has twice as long,
    since a large cluster's answer takes time.
    """
    from confluent_kafka import KafkaError, KafkaException

    deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
    step_s = CONNECT_STEP_S
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            topics: dict[str, Any] = admin.list_topics(timeout=min(step_s, max(left_s, CONNECT_STEP_S))).topics
        except KafkaException as error:
            # Their public names.
            may_pass = error.args[0].code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}  # noqa: SLF001
            if not may_pass or left_s <= step_s:
                refuse("cannot list topics", error.args[0])
            step_s *= 2
        else:
            return topics


def find_topic(admin: Any, name: str) -> Any:
    """Return a topic's metadata; `LocalClusterError` when there is none of this name."""
    topic = topic_names(admin).get(name)
    if topic is None:
        raise no_topic(name)
    return topic


def no_topic(name: str) -> LocalClusterError:
    """Return the error for a topic that does not exist."""
    return LocalClusterError(f"there is no topic {name!r}. `syncline topics list` lists all topics.")


def no_partition(topic: str, partition: int, count: int) -> LocalClusterError:
    """Return the error for a partition that a topic of `count` partitions does not have."""
    return LocalClusterError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}.")


def nobody_answers(silent: Mapping[int, str]) -> LocalClusterError:
    """Return the error for a cluster of which no broker answers: what each says, once."""
    return LocalClusterError(" ".join(dict.fromkeys(silent.values())))


def no_answer(broker: int, patience_s: float = SILENT_S) -> str:
    """Return that a broker is silent, in the words that all commands have for it."""
    return f"broker {broker} does not answer within {patience_s:g} s"


def result_of(future: Any, what: str) -> Any:
    """Return a future's result; a refusal becomes one sentence that begins with `what`."""
    from confluent_kafka import KafkaException

    try:
        return future.result(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        refuse(what, error.args[0])
    except TimeoutError:
        raise LocalClusterError(f"{what}: no answer within {REQUEST_TIMEOUT_S:.0f} s.") from None


def code_of(future: Any) -> int | None:
    """Return the code of the Kafka error with which a future ended; None if it did not, or not in time."""
    from confluent_kafka import KafkaException

    try:
        error = future.exception(REQUEST_TIMEOUT_S)
    except TimeoutError:
        return None
    return int(error.args[0].code()) if isinstance(error, KafkaException) else None


def refuse(what: str, error: Any) -> NoReturn:
    """Raise a Kafka error as `LocalClusterError`."""
    raise LocalClusterError(f"{what}: {sentence_of(error)}")


def sentence_of(error: Any) -> str:
    """Return a Kafka error as text, with Kafka's name for it if a broker sent it."""
    text = str(error.str() if hasattr(error, "str") else error).removeprefix("Broker: ").removeprefix("Local: ")
    code = error.code() if hasattr(error, "code") else 0
    name = next((each.name for each in ErrorCode if each == code > 0), "")
    return f"{text} ({name})" if name and name not in text else text


def reason_in_words(said: str) -> str | None:
    """Return why a broker cannot be reached in our words, None if what a library said is none of the usual reasons."""
    return next((words for phrase, words in _REASONS.items() if phrase in said), None)


def guarded(what: str, call: Callable[[], _T]) -> _T:
    """Return `call()`; Kafka's and value errors become one sentence."""
    from confluent_kafka import KafkaException

    try:
        return call()
    except KafkaException as error:
        refuse(what, error.args[0])
    except (ValueError, TypeError) as error:
        raise LocalClusterError(f"{what}: {error}") from None


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Return a dict from NAME=VALUE pairs."""
    parsed: dict[str, str] = {}
    for pair in pairs or []:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise LocalClusterError(f"{option} takes NAME=VALUE, not {pair!r}.")
        parsed[name.strip()] = value
    return parsed


def counted(number: int, noun: str) -> str:
    """Return "1 record", "2 records"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def sentences() -> Iterator[None]:
    """Let refusals of plans be printed as all others are."""
    try:
        yield
    except PlanError as refusal:
        raise LocalClusterError(str(refusal)) from None
