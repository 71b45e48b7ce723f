"""The options of `up`.

argparse imports in ten milliseconds, and typer, which parses the options of the other commands, in a hundred. Brokers
are forked from the process of `up`: argparse is forgotten first, as each of them would keep 0.3 MB of it.
"""

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from syncline.local.layout import BROKERS_MAX
from syncline.local.profiles import PROFILES

if TYPE_CHECKING:
    import argparse

SUMMARY: Final = "Start a cluster on this machine and keep it running until Ctrl-C (or `down`)."
DEFAULT_DIRECTORY: Final = Path("syncline-data")
PORT_MAX: Final = 65_535


class Options(NamedTuple):
    """What `up` is asked to do; see its help."""

    brokers: int | None
    data: Path
    port: tuple[int, ...]
    config: list[str] | None
    racks: tuple[str, ...]
    profile: str | None
    detach: bool
    ready_file: Path | None
    restart: bool
    json: bool


def parse(arguments: Sequence[str]) -> Options:
    """Return the options; end the process if they are wrong, or ask for help."""
    before = set(sys.modules)
    # The collector looks only at what comes from here on.
    gc.freeze()
    options = Options(**vars(_parser().parse_args(arguments)))
    for name in {"argparse", "gettext", "locale"} - before:
        sys.modules.pop(name, None)
    gc.collect()
    return options


def _parser() -> "argparse.ArgumentParser":
    import argparse

    parser = argparse.ArgumentParser(prog="syncline up", description=SUMMARY)
    parser.add_argument(
        "--brokers", type=_brokers, metavar="N", help="how many brokers (default: as many as last time, or 3)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_DIRECTORY,
        metavar="DIR",
        help=f"data directory of the cluster (default: {DEFAULT_DIRECTORY})",
    )
    parser.add_argument(
        "--port",
        type=_ports,
        default=(),
        metavar="N[,N...]",
        help="port of the first broker (the others get the ports after it), or one port for each broker; 0 picks "
        "free ports (default: the ports of last time, or 9092 and up)",
    )
    parser.add_argument(
        "--config",
        "-c",
        action="append",
        metavar="NAME=VALUE",
        help="a broker configuration for this run; repeatable",
    )
    parser.add_argument(
        "--racks",
        type=_racks,
        default=(),
        metavar="A,B,...",
        help="racks of the brokers, in order (broker.rack); replicas are spread over them. To let consumers read "
        "in their own rack, add --config "
        "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
    parser.add_argument("--profile", metavar="NAME", help=f"a predefined set of configurations: {', '.join(PROFILES)}")
    parser.add_argument(
        "--detach",
        "-d",
        action="store_true",
        help="return once the cluster is up, with exit code 1 if a broker is not up; stop the cluster with `down`",
    )
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="write this JSON file (bootstrap servers, process ids) once the cluster is up",
    )
    parser.add_argument(
        "--restart",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="restart a broker when its process dies (default: yes)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


def _brokers(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= BROKERS_MAX:
        raise _wrong(f"takes a number from 1 to {BROKERS_MAX}, not {text!r}")
    return int(text)


def _racks(text: str) -> tuple[str, ...]:
    racks = tuple(each.strip() for each in text.split(","))
    if not all(racks):
        raise _wrong(f"takes names separated by commas, not {text!r}")
    return racks


def _ports(text: str) -> tuple[int, ...]:
    each = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() and int(number) <= PORT_MAX for number in each):
        raise _wrong(f"takes ports from 0 to {PORT_MAX}, separated by commas, not {text!r}")
    ports = tuple(map(int, each))
    if len(ports) > BROKERS_MAX:
        raise _wrong(f"takes at most {BROKERS_MAX} ports, not {len(ports)}")
    given = [port for port in ports if port]
    if len(set(given)) != len(given):
        raise _wrong(f"takes each port once, not {text!r}")
    return ports


def _wrong(what: str) -> Exception:
    import argparse

    return argparse.ArgumentTypeError(what)
