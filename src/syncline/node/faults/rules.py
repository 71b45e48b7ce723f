"""Fault rules: what a fault strikes, when, and how often. Other modules apply them.

A rule selects disk operations, links or requests; its trigger picks among those. `seen` counts the operations selected
while the rule could strike, `hits` those that it struck; tests assert on `hits`.

A rule is *active* until its duration has passed, its trigger can never fire again, or a client clears it. A stuck
operation stays stuck until the rule ends, so a spent trigger does not end a `disk-stuck` rule.

Units: milliseconds. Rules arrive as JSON; an unusable one raises `ControlRefused` with a sentence.
"""

import errno
import random
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.control.verbs import ControlRefused
from syncline.node.faults.names import DISK_STUCK, MISS, READ
from syncline.node.faults.table import (
    BROKER_KINDS,
    CLIENT,
    DIRECTIONS,
    DIRECTIONS_BY_DEFAULT,
    ERRNOS,
    KINDS,
    LISTENERS,
    TRIGGERS,
    Place,
)
from syncline.wire.api import CLIENT_VERSIONS, ApiKey

# Why a rule ended.
SPENT: Final = "its trigger cannot fire again"
TIME_IS_OVER: Final = "its time is up"
CLEARED: Final = "cleared"

DELAY_MS_MAX: Final = 600_000
DURATION_MS_MAX: Final = 2**31 - 1
TEXT_MAX: Final = 1_000
TRIGGER_LENGTH_MAX: Final = 100
# Requests that no rule strikes: a client that injected faults must be able to end them.
SPARED: Final = frozenset({ApiKey.CONTROL})


class Trigger:
    """Which of the selected operations are struck."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen = 0
        self.hits = 0
        self._mode, self._number, self._dice = _parse_trigger(text)

    @property
    def is_spent(self) -> bool:
        """Whether it will never fire again."""
        return self._mode in {"nth", "times"} and self.seen >= self._number

    def fires(self) -> bool:
        """Count one selected operation; return whether it is struck."""
        if self.is_spent:
            return False
        self.seen += 1
        if self._mode == "nth":
            fires = self.seen == self._number
        elif self._mode == "every":
            fires = self.seen % self._number == 0
        elif self._dice is not None:
            fires = self._dice() < self._number
        else:
            fires = True
        self.hits += fires
        assert self.hits <= self.seen, f"{self.text}: {self.hits} hits of {self.seen} operations"
        return fires


class Rule:
    """One fault of one broker."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        reader = _Reader(fields)
        self.id = reader.text("id")
        self.kind = reader.kind.name
        self.place = reader.kind.place
        self.duration_ms = reader.number("duration_ms", 1, DURATION_MS_MAX)
        self.trigger = Trigger(reader.optional_text("trigger") or "always")
        self.topic = reader.optional_text("topic")
        self.partition = reader.number("partition", 0)
        if self.partition is not None and self.topic is None:
            raise ControlRefused("a partition is only selected together with its topic: name both.")
        self.delay_ms = reader.number("delay_ms", 1, DELAY_MS_MAX, is_needed=True) or 0
        self.directions = reader.texts("directions", DIRECTIONS, DIRECTIONS_BY_DEFAULT)
        self.errno = reader.optional_text("errno", ERRNOS, default="EIO")
        self.links = reader.links("links")
        self.apis = reader.apis("apis")
        self.client_id = reader.optional_text("client_id")
        self.listener = reader.optional_text("listener", LISTENERS, default=CLIENT)
        self.error = reader.error("error")
        # Whether this broker journals the fault; of several brokers with the same fault, one does.
        self.is_journalled = fields.get("journal", True) is True
        if self.kind == DISK_STUCK and self.duration_ms is None and not {READ, MISS}.issuperset(self.directions):
            raise ControlRefused(
                "a stuck write or sync stops the whole broker, so that no command can clear the fault: "
                "limit its time with --for."
            )
        # Effects depend on the fields of a rule, which its kind determines.
        assert bool(self.directions) == (self.place is Place.DISK), f"{self.kind} strikes {self.directions}"
        assert bool(self.links) == (self.place is Place.LINK), f"{self.kind} strikes {self.links}"
        assert (self.listener is not None) == (self.place is Place.REQUEST), f"{self.kind} strikes {self.listener}"
        self._described = reader.kind.fields - {"id", "kind", "trigger", "duration_ms"}
        # Monotonic ms; None: until it is cleared.
        self.until_ms: int | None = None
        self.over: str | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may still strike."""
        return self.over is None

    @property
    def is_lifted(self) -> bool:
        """Whether the operations that it holds may continue."""
        return self.over is not None and self.over != SPENT

    @property
    def is_spent(self) -> bool:
        """Whether it can strike nothing more, and holds no operation."""
        return self.trigger.is_spent and self.kind != DISK_STUCK

    def selects_file(self, partition: TopicPartition | None, direction: str) -> bool:
        """Return whether a disk operation on a partition's file, or on another file (None), is selected."""
        if direction not in self.directions:
            return False
        if self.topic is None:
            return True
        return partition is not None and partition.topic == self.topic and self.partition in (None, partition.partition)

    def selects_request(
        self,
        key: int,
        listener: str,
        client_id: str | None,
        partitions: Callable[[], Sequence[tuple[str, int | None]]],
    ) -> bool:
        """Return whether a request is selected; `partitions` is called only when the answer depends on it.

        Requests that only brokers send are selected by name; requests that clients send, too, count as brokers' on the
        internal listener.
        """
        if key in SPARED or (self.apis and key not in self.apis):
            return False
        if listener != self.listener and key in CLIENT_VERSIONS:
            return False
        if not self.apis and key not in CLIENT_VERSIONS:
            # "Any" request means any that clients send: a broker needs the others to take part in the cluster.
            return False
        if self.client_id is not None and not fnmatchcase(client_id or "", self.client_id):
            return False
        if self.topic is None:
            return True
        return any(
            topic == self.topic and (self.partition is None or self.partition == partition)
            for topic, partition in partitions()
        )

    def strikes(self) -> bool:
        """Count one selected operation; return whether it is struck."""
        return self.is_active and self.trigger.fires()

    def os_error(self, path: str) -> OSError:
        """Return the error of a failing disk."""
        number = getattr(errno, self.errno or "EIO")
        return OSError(number, f"injected fault {self.id} ({self.errno})", path)

    def describe(self, now_ms: int) -> dict[str, Any]:
        """Return the rule as JSON, with its counters."""
        row: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "state": "active" if self.is_active else "over",
            "over": self.over,
            "seen": self.trigger.seen,
            "hits": self.trigger.hits,
            "trigger": self.trigger.text,
            "left_ms": max(0, self.until_ms - now_ms) if self.until_ms is not None and self.is_active else None,
            **{name: _as_json(getattr(self, name)) for name in sorted(self._described)},
        }
        return {name: value for name, value in row.items() if value is not None}

    def target(self, broker_id: int) -> str:
        """Return the target, as the journal names it."""
        if self.links:
            return ",".join(f"broker-{source}>broker-{target}" for source, target in self.links)
        if self.place is Place.DISK and self.topic is not None and self.partition is not None:
            return f"{self.topic}-{self.partition}"
        return f"broker-{broker_id}"

    def note(self) -> str:
        """Return a description of the effect."""
        words = [f"fault {self.id}"]
        if self.place is Place.DISK:
            words.append("/".join(self.directions) + (f" fail with {self.errno}" if self.errno else ""))
        if self.place is Place.REQUEST:
            words.append("/".join(api.name for api in self.apis) or "any request")
        if self.error is not None:
            words.append(f"answered with {self.error.name}")
        if self.delay_ms:
            words.append(f"delayed by {self.delay_ms} ms")
        if self.topic is not None:
            words.append(f"of {self.topic}" + (f"-{self.partition}" if self.partition is not None else ""))
        if self.client_id is not None:
            words.append(f"of client {self.client_id}")
        if self.trigger.text != "always":
            words.append(f"trigger {self.trigger.text}")
        if self.duration_ms is not None:
            words.append(f"for {self.duration_ms} ms")
        return ", ".join(words)


def _parse_trigger(text: str) -> tuple[str, float, Callable[[], float] | None]:
    """Return (mode, its number, random source if it needs one); `once` means `times=1`."""
    mode, _, rest = text.partition("=")
    if text == "always":
        return "always", 0, None
    if text == "once":
        return "times", 1, None
    if len(text) > TRIGGER_LENGTH_MAX:
        mode = ""
    if mode in {"nth", "times", "every"} and rest.isdecimal() and int(rest) > 0:
        return mode, int(rest), None
    if mode == "probability":
        share, _, seed = rest.partition(",seed=")
        try:
            chance = float(share)
        except ValueError:
            chance = -1.0
        if 0 <= chance <= 1 and seed.isdecimal():
            # Seeded, so that every run strikes the same requests.
            return mode, chance, random.Random(int(seed)).random  # noqa: S311 - dice, no secret
    raise ControlRefused(f"a trigger must be {TRIGGERS}, not {text!r}.")


class _Reader:
    """Reads the fields that a kind of fault has; refuses others, whose values are None or empty."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        kind = fields.get("kind")
        if not isinstance(kind, str) or kind not in BROKER_KINDS:
            if kind is None:
                raise ControlRefused(f"a fault needs 'kind': {_one_of(BROKER_KINDS)}.")
            raise ControlRefused(f"'kind' must be {_one_of(BROKER_KINDS)}, not {kind!r}.")
        self.kind = KINDS[kind]
        self._known = self.kind.fields
        others = [name for name in fields if name not in self._known | {"journal"} and fields[name] is not None]
        if others:
            raise ControlRefused(f"faults of kind {kind} do not take {', '.join(map(repr, others))}.")

    def _get(self, name: str) -> Any:
        return self._fields.get(name)

    def text(self, name: str, choices: Sequence[str] = ()) -> str:
        value = self.optional_text(name, choices)
        if value is None:
            raise ControlRefused(f"a fault needs {name!r}.")
        return value

    def optional_text(self, name: str, choices: Sequence[str] = (), default: str | None = None) -> str | None:
        value = self._get(name)
        if value is None:
            return default if name in self._known else None
        if not isinstance(value, str) or not value or (choices and value not in choices):
            raise ControlRefused(f"{name!r} must be {_one_of(choices) if choices else 'text'}, not {value!r}.")
        if len(value) > TEXT_MAX:
            raise ControlRefused(f"{name!r} can have at most {TEXT_MAX} characters, not {len(value)}.")
        return value

    def texts(self, name: str, choices: Sequence[str], default: tuple[str, ...]) -> tuple[str, ...]:
        values = self._get(name)
        if name not in self._known:
            return ()
        if values is None:
            return default
        if not isinstance(values, list) or any(value not in choices for value in values):
            raise ControlRefused(f"{name!r} must be a list of {', '.join(choices)}, not {values!r}.")
        return tuple(choice for choice in choices if choice in values) or default

    def number(self, name: str, least: int, most: int = 2**31 - 1, *, is_needed: bool = False) -> int | None:
        value = self._get(name)
        if name not in self._known or (value is None and not is_needed):
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ControlRefused(f"{name!r} must be a number from {least} to {most}, not {value!r}.")
        return value

    def links(self, name: str) -> tuple[tuple[int, int], ...]:
        if name not in self._known:
            return ()
        values = self._get(name)
        try:
            links = tuple((source, target) for source, target in values)
        except (TypeError, ValueError):
            links = ()
        if not links or any(source == target or not (_is_id(source) and _is_id(target)) for source, target in links):
            raise ControlRefused(f"{name!r} must be a list of [from, to] pairs of different brokers, not {values!r}.")
        return links

    def apis(self, name: str) -> tuple[ApiKey, ...]:
        values = self._get(name) or []
        if not isinstance(values, list) or ("api" in self.kind.needs and not values):
            raise ControlRefused(f"{name!r} must be a list of requests such as PRODUCE, not {values!r}.")
        return tuple(dict.fromkeys(_api(value) for value in values))

    def error(self, name: str) -> ErrorCode | None:
        if name not in self._known:
            return None
        value = self._get(name)
        wanted = str(value).upper().replace("-", "_")
        for code in ErrorCode:
            if code is not ErrorCode.NONE and wanted in (code.name, str(int(code))):
                return code
        raise ControlRefused(f"{name!r} must be a Kafka error code, such as NOT_LEADER_OR_FOLLOWER, not {value!r}.")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _api(value: Any) -> ApiKey:
    wanted = "".join(letter for letter in str(value).upper() if letter not in "_-")
    for key in ApiKey:
        if key not in SPARED and wanted in (key.name.replace("_", ""), str(int(key))):
            return key
    known = ", ".join(key.name for key in ApiKey if key not in SPARED)
    raise ControlRefused(f"there is no request {value!r}. Known requests: {known}.")


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(each) for each in value]
    return value.name if isinstance(value, ApiKey | ErrorCode) else value


def _one_of(choices: Sequence[str]) -> str:
    return f"one of {', '.join(choices)}"
