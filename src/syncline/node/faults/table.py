"""Faults by name and their options: checks, help texts and docs/faults.md all use this table.

A new fault is one entry of `KINDS`, and its effect in `disk`, `links` or `requests` (of a process: `syncline.local`).
A new option is one field of `FaultOptions`; where a broker acts on it, `Rule` reads the field that the option names.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Final, NamedTuple, TypedDict

from syncline.node.faults.names import (
    API_DISCONNECT,
    API_DROP_REPLY,
    API_ERROR,
    API_THROTTLE,
    DISK_FAIL,
    DISK_SLOW,
    DISK_STUCK,
    KILL,
    LINK_CUT,
    LINK_CUT_ONE_WAY,
    LINK_DELAY,
    MISS,
    PAUSE,
    READ,
    SYNC,
    WRITE,
)

# What a disk fault strikes by default, and everything that it can name: misses are reads, too.
DIRECTIONS_BY_DEFAULT: Final = (READ, WRITE, SYNC)
DIRECTIONS: Final = (*DIRECTIONS_BY_DEFAULT, MISS)

CLIENT: Final = "client"
LISTENERS: Final = (CLIENT, "internal")

ERRNOS: Final = ("EIO", "ENOSPC", "EMFILE", "EROFS", "EACCES")
TRIGGERS: Final = "always, once, nth=N, times=N, every=N or probability=P,seed=S"
NODES: Final = "a broker's number, controller, leader, followers or all"

Node = int | str
Nodes = Node | Sequence[Node] | None
Texts = str | Sequence[str] | None


class Form(Enum):
    """How users write an option, and what brokers receive."""

    TEXT = "text"
    TEXTS = "text, repeatable; a list for brokers"
    TIME = "a time such as 200ms; seconds in Python, milliseconds for brokers"
    # The number is this option's value; TOPIC becomes the value of `--topic`.
    PLACE = "TOPIC:NUMBER"


class Option(NamedTuple):
    """One option of faults: its name on the command line, its help text, and its field in a rule."""

    flag: str
    metavar: str
    help: str
    # "" for an option that only selects the brokers that get the rule.
    field: str = ""
    form: Form = Form.TEXT
    short_flag: str = ""


class FaultOptions(TypedDict, total=False):
    """The options of `syncline fault add` and `Faults.add`, by their names in Python."""

    broker: Annotated[
        Nodes,
        Option("--broker", "NODE", f"Brokers to affect: {NODES}; repeatable (default: all).", "", Form.TEXTS, "-n"),
    ]
    source: Annotated[
        Nodes, Option("--from", "NODE", "One end of a link; for a one-way cut, the broker that sends.", "links")
    ]
    target: Annotated[Nodes, Option("--to", "NODE", "The other end of the link; repeatable.", "links", Form.TEXTS)]
    topic: Annotated[str | None, Option("--topic", "TOPIC", "Only operations and requests for this topic.", "topic")]
    partition: Annotated[
        int | None,
        Option(
            "--partition",
            "TOPIC:NUMBER",
            "Only operations and requests for this partition.",
            "partition",
            Form.PLACE,
            "-p",
        ),
    ]
    direction: Annotated[
        Texts,
        Option(
            "--direction",
            "|".join(DIRECTIONS),
            "Operations to affect: read, write, sync, miss (a read that memory cannot serve); repeatable "
            "(default: read, write, sync).",
            "directions",
            Form.TEXTS,
        ),
    ]
    delay_s: Annotated[
        float | None,
        Option("--delay", "TIME", "The delay, with its unit, such as 200ms or 1.5s.", "delay_ms", Form.TIME),
    ]
    errno: Annotated[str | None, Option("--errno", "NAME", f"The disk error: {', '.join(ERRNOS)}.", "errno")]
    api: Annotated[
        Texts,
        Option(
            "--api", "NAME", "Requests to affect: PRODUCE, FETCH, ALTER_PARTITION, ...; repeatable.", "apis", Form.TEXTS
        ),
    ]
    client_id: Annotated[
        str | None,
        Option("--client", "PATTERN", "Only requests of clients whose id matches this pattern.", "client_id"),
    ]
    listener: Annotated[
        str | None,
        Option("--listener", "|".join(LISTENERS), "Requests of clients (default), or between brokers.", "listener"),
    ]
    error: Annotated[str | None, Option("--error", "CODE", "The Kafka error code of the response.", "error")]
    trigger: Annotated[str | None, Option("--trigger", "WHEN", f"{TRIGGERS} (default: always).", "trigger")]
    for_s: Annotated[
        float | None,
        Option(
            "--for",
            "TIME",
            "How long the fault lasts, with its unit, such as 20s or 2m (default: until cleared).",
            "duration_ms",
            Form.TIME,
        ),
    ]
    fault_id: Annotated[str | None, Option("--id", "TEXT", "An id of your own for the fault.", "id")]


OPTIONS: Final[dict[str, Option]] = {name: hint.__metadata__[0] for name, hint in FaultOptions.__annotations__.items()}


class Place(Enum):
    """What a fault strikes."""

    DISK = "disk"
    LINK = "link"
    REQUEST = "request"
    PROCESS = "process"


class FaultKind(NamedTuple):
    """One kind of fault: what happens, and the names of its options."""

    name: str
    place: Place
    effect: str
    options: tuple[str, ...]
    # Options that it needs; of names separated by blanks, any one.
    needs: tuple[str, ...] = ()

    @property
    def fields(self) -> frozenset[str]:
        """The fields of its rules as brokers read them."""
        return frozenset({"id", "kind", *(OPTIONS[name].field for name in self.options)} - {""})


_DISK: Final = ("broker", "topic", "partition", "direction", "trigger", "for_s", "fault_id")
_LINK: Final = ("source", "target", "for_s", "fault_id")
_REQUEST: Final = ("broker", "topic", "partition", "api", "client_id", "listener", "trigger", "for_s", "fault_id")
_SELECTED: Final = "api client_id topic"

KINDS: Final[dict[str, FaultKind]] = {
    kind.name: kind
    for kind in (
        FaultKind(
            DISK_SLOW, Place.DISK, "each operation is delayed by `--delay`", (*_DISK, "delay_s"), needs=("delay_s",)
        ),
        FaultKind(DISK_STUCK, Place.DISK, "operations do not return until the fault ends", _DISK),
        FaultKind(DISK_FAIL, Place.DISK, "operations fail with `--errno` (default: `EIO`)", (*_DISK, "errno")),
        FaultKind(LINK_CUT, Place.LINK, "nothing passes between two brokers", _LINK),
        FaultKind(
            LINK_CUT_ONE_WAY, Place.LINK, "what `--from` sends to `--to` is lost; the other direction works", _LINK
        ),
        FaultKind(
            LINK_DELAY,
            Place.LINK,
            "what two brokers send each other is delayed by `--delay`, in both directions",
            (*_LINK, "delay_s"),
            needs=("delay_s",),
        ),
        FaultKind(
            API_DROP_REPLY,
            Place.REQUEST,
            "the request is processed, but its response and its connection are lost",
            _REQUEST,
            needs=(_SELECTED,),
        ),
        FaultKind(
            API_ERROR,
            Place.REQUEST,
            "the request is not processed, and its response is `--error`",
            (*_REQUEST, "error"),
            needs=("error", "api"),
        ),
        FaultKind(
            API_DISCONNECT,
            Place.REQUEST,
            "the request is not processed, and its connection closes",
            _REQUEST,
            needs=(_SELECTED,),
        ),
        FaultKind(
            API_THROTTLE,
            Place.REQUEST,
            "the request is processed, but its response and those behind it are delayed by `--delay`",
            (*_REQUEST, "delay_s"),
            needs=("delay_s", _SELECTED),
        ),
        FaultKind(
            PAUSE,
            Place.PROCESS,
            "the broker's process is stopped (SIGSTOP) until the fault ends",
            ("broker", "for_s"),
            needs=("broker",),
        ),
        FaultKind(
            KILL,
            Place.PROCESS,
            "the broker's process ends at once (SIGKILL); `up` restarts it",
            ("broker",),
            needs=("broker",),
        ),
    )
}

# Kinds that a broker applies to itself; the others apply to its process from outside.
BROKER_KINDS: Final = tuple(kind.name for kind in KINDS.values() if kind.place is not Place.PROCESS)
