"""Which cluster a command speaks to, and how its errors read.

`--bootstrap` names any Kafka-compatible cluster, Apache Kafka included;
without it the cluster of the data directory is meant, so that nobody types
ports at their own laptop.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from syncline.local.layout import Layout, LocalClusterError

_T = TypeVar("_T")

REQUEST_TIMEOUT_S = 15.0

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT,...", help="Cluster to speak to (default: the one of --data)."
    ),
]
DataOption = Annotated[Path, typer.Option("--data", help="Data directory of a local cluster.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
DEFAULT_DIRECTORY = Path("syncline-data")


def bootstrap_of(bootstrap: str | None, data: Path) -> str:
    """Return the servers to connect to."""
    if bootstrap:
        return bootstrap
    running = Layout(data.absolute()).running()
    if running is None:
        raise LocalClusterError(
            f"no cluster is running in {data}. Start one with `syncline up`, or name one with --bootstrap HOST:PORT."
        )
    return running.bootstrap


def client_config(bootstrap: str, **more: Any) -> dict[str, Any]:
    """Return a confluent-kafka configuration that keeps its chatter off the terminal."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.ms": 50, **more}


def admin_client(bootstrap: str) -> Any:
    """Return an admin client whose cluster answers; `LocalClusterError` otherwise."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(client_config(bootstrap))
    try:
        admin.list_topics(timeout=REQUEST_TIMEOUT_S / 3)
    except KafkaException:
        raise LocalClusterError(f"no broker answers at {bootstrap}. Is the cluster up?") from None
    return admin


def result_of(future: Any, what: str) -> Any:
    """Return a future's result; a refusal becomes one sentence that begins with `what`."""
    from confluent_kafka import KafkaException

    try:
        return future.result(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        refuse(what, error.args[0])
    except TimeoutError:
        raise LocalClusterError(f"{what}: no answer within {REQUEST_TIMEOUT_S:.0f} s.") from None


def refuse(what: str, error: Any) -> NoReturn:
    """Raise the sentence for a Kafka error."""
    text = error.str() if hasattr(error, "str") else str(error)
    name = error.name() if hasattr(error, "name") else ""
    raise LocalClusterError(f"{what}: {text}{f' ({name})' if name and name not in text else ''}")


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


def print_table(headers: list[str], rows: list[list[Any]]) -> None:
    """Print rows under headers, columns as wide as they need."""
    cells = [headers, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
