"""Configuration values: from text to a typed value and back, with Kafka's error messages.

Every value arrives as text (file, command line, AlterConfigs) and leaves as
text (DescribeConfigs); in between it is a bool, int, float, str or a tuple of
strings. Parsing follows Java, since clients compare what they wrote with what
they read back: numbers are bounded by their type, a double prints as
`1.0E10`, blanks around a value and around the items of a list are ignored.

A configuration that Syncline reads is declared once, as a field of `BrokerConfig`
or `TopicConfig` made by `setting`: the field's name with dots for underscores is
the configuration's, and `definitions_of` lists a class's definitions.
Source: Kafka's ConfigDef.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from syncline.model.immutable import Immutable

Value = bool | int | float | str | tuple[str, ...] | None
V = TypeVar("V", bound=Value)

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """Types by their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

# The documentation of a configuration that Syncline stores but does not read.
NOT_ACTED_ON: Final = "Accepted and stored for compatibility; Syncline does not act on it."
NOT_YET: Final = "Accepted and stored; Syncline does not act on it yet."


class UpdateMode(Enum):
    """When a broker configuration may change."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"
    PER_BROKER = "per-broker"


READ_ONLY: Final = UpdateMode.READ_ONLY
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE
PER_BROKER: Final = UpdateMode.PER_BROKER


class ConfigError(ValueError):
    """A configuration is unknown or its value unusable; the text is Kafka's and names both."""


class Problem(NamedTuple):
    """What is wrong with a value, or with one item of it."""

    value: Value
    text: str


# Returns what is wrong with a parsed value, None if nothing is.
Check = Callable[[Value], Problem | None]

_INTEGER_BITS: Final[Mapping[ConfigType, int]] = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
# No number needs more digits; Python refuses to parse thousands of them.
_INTEGER: Final = re.compile(r"[+-]?\d{1,1000}\Z")
# As Java's `Double.parseDouble` reads them.
_DOUBLE: Final = re.compile(
    r"(?P<number>[+-]?(?:NaN|Infinity|(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?))[dDfF]?"
)
_HEX_DOUBLE: Final = re.compile(
    r"(?P<number>[+-]?0[xX](?:[0-9a-fA-F]{1,400}\.?[0-9a-fA-F]{0,400}|\.[0-9a-fA-F]{1,400})[pP][+-]?[0-9]{1,4})[dDfF]?"
)
# What Java's `String.trim` removes.
BLANKS: Final = "".join(map(chr, range(0x21)))
_HOST: Final = re.compile(r"[\w.:%-]+\Z")
# The digits of a partition's or broker's number in a list of throttled replicas. Kafka takes any number of them, and
# Python refuses to read some thousand.
NUMBER_DIGITS_MAX: Final = 20
_LONG_NUMBER: Final = re.compile(rf"[0-9]{{{NUMBER_DIGITS_MAX + 1}}}")
# Each item is followed by a comma. Possessive, as nothing is gained by going back.
_THROTTLED: Final = re.compile(r"(?:(?:[0-9]++:[0-9]++)?+,)*+\Z")
_SCALE_TO_MS: Final[Mapping[str, int]] = {"minutes": 60_000, "hours": 3_600_000}
_THROTTLED_FORM: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConfigDefinition(Immutable):
    """One configuration: its name, type, default as text (None: no value) and rules."""

    name: str
    kind: ConfigType
    default: str | None
    check: Check | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    documentation: str = ""
    # Broker configurations whose value applies if this one is not set, most specific first.
    synonyms: tuple[str, ...] = ()
    # Neither listed nor documented: for tests, under Kafka's name where it has one.
    hidden: bool = False
    # Apache Kafka has no configuration of this name.
    own: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is never shown."""
        return self.kind is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return the value of `text`; raises `ConfigError`."""
        value = self.read(text)
        problem = None if self.check is None else self.check(value)
        if problem is not None:
            shown = _in_message(problem.value)
            raise ConfigError(f"Invalid value {shown} for configuration {self.name}: {problem.text}")
        return value

    def read(self, text: str) -> Value:
        """Return the value of a text that was accepted once, when other values may have been allowed."""
        return self._parse_type(text.strip(BLANKS))

    def default_value(self) -> Value:
        """Return the parsed default."""
        return None if self.default is None else self._parse_type(self.default)

    def _parse_type(self, text: str) -> Value:
        kind = self.kind
        if kind in _INTEGER_BITS:
            if _INTEGER.match(text) is not None:
                number = int(text)
                limit = 1 << _INTEGER_BITS[kind]
                if -limit <= number < limit:
                    return number
            raise self._not_a_number(text)
        if kind is ConfigType.BOOLEAN:
            lowered = text.lower()
            if lowered not in {"true", "false"}:
                raise ConfigError(
                    f"Invalid value {text} for configuration {self.name}: Expected value to be either true or false"
                )
            return lowered == "true"
        if kind is ConfigType.DOUBLE:
            if (match := _DOUBLE.fullmatch(text)) is not None:
                return float(match["number"])
            if (match := _HEX_DOUBLE.fullmatch(text)) is not None:
                return float.fromhex(match["number"])
            raise self._not_a_number(text)
        if kind is ConfigType.LIST:
            return tuple(_items(text)) if text else ()
        return text

    def _not_a_number(self, text: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {self.name}: Not a number of type {self.kind.name}")


def setting(
    kind: ConfigType,
    default: V,
    update_mode: UpdateMode,
    documentation: str,
    *,
    check: Check | None = None,
    synonyms: str = "",
    hidden: bool = False,
    own: bool = False,
) -> V:
    """Return a dataclass field that declares a configuration; `synonyms` are names with blanks between them.

    The type says what the field holds, as that of `dataclasses.field` does: type checkers see the default.
    """
    rules = {
        "kind": kind,
        "check": check,
        "update_mode": update_mode,
        "documentation": documentation,
        "synonyms": tuple(synonyms.split()),
        "hidden": hidden,
        "own": own,
    }
    return dataclasses.field(default=default, metadata=rules)


def definitions_of(config: type[Any]) -> tuple[ConfigDefinition, ...]:
    """Return the definitions that the fields of a configuration class declare, in the order of its fields."""
    defaults: dict[str, Any] = {each.name: each.default for each in dataclasses.fields(config)}
    return tuple(
        ConfigDefinition(each.name.replace("_", "."), default=show(defaults[each.name]), **each.metadata)
        for each in dataclasses.fields(config)
        if each.metadata
    )


def parse_all(definitions: Mapping[str, ConfigDefinition], texts: Mapping[str, str]) -> dict[str, Value]:
    """Return the values of those `texts` that have a definition, by name; raises `ConfigError`."""
    return {name: definitions[name].parse(text) for name, text in texts.items() if name in definitions}


def as_fields(settings: Mapping[str, ConfigDefinition], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return those `values` that are settings of a class, by the names of its fields."""
    return {name.replace(".", "_"): value for name, value in values.items() if name in settings}


def scale_to_ms(name: str) -> int:
    """Return the factor that converts a duration under this name to milliseconds."""
    return _SCALE_TO_MS.get(name.rpartition(".")[2], 1)


def show(value: Value) -> str | None:
    """Return the text of a parsed value as DescribeConfigs gives it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _show_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def at_least(low: float) -> Check:
    """Return a check of a lower bound."""
    return between(low, math.inf)


def between(low: float, high: float) -> Check:
    """Return a check of two bounds, both allowed."""

    def check(value: Value) -> Problem | None:
        assert isinstance(value, (int, float)), "bounds are for numbers"
        if value < low:
            return Problem(value, f"Value must be at least {low}")
        if value > high:
            return Problem(value, f"Value must be no more than {high}")
        return None

    return check


def between_or(low: int, high: int, other: int) -> Check:
    """Return a check of two bounds that also allows one other value."""

    def check(value: Value) -> Problem | None:
        assert isinstance(value, int), "bounds are for numbers"
        if value == other or low <= value <= high:
            return None
        return Problem(value, f"Value must be between {low} and {high} or equal to {other}")

    return check


def one_of(*allowed: str) -> Check:
    """Return a check that a string, or each item of a list, is one of `allowed`."""

    def check(value: Value) -> Problem | None:
        items = value if isinstance(value, tuple) else (value,)
        bad = next((item for item in items if item not in allowed), None)
        return None if bad is None else Problem(bad, f"String must be one of: {', '.join(filter(None, allowed))}")

    return check


def throttled_replicas(name: str) -> Check:
    """Return the check of a list of throttled replicas: "*", or items `partition:broker`, empty ones included.

    Numbers have no bound here but in `check_numbers`: brokers also read lists that were stored before they had one.
    """

    def check(value: Value) -> Problem | None:
        assert isinstance(value, tuple), "throttled replicas are a list"
        # One match for all of them: a list may name ten thousand replicas.
        if "".join(value) == "*" or _THROTTLED.match(",".join((*value, ""))):
            return None
        return Problem(
            value, f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED_FORM}"
        )

    return check


def check_numbers(name: str, value: str) -> None:
    """Raise `ConfigError` when a list of throttled replicas has a number that no partition or broker can have."""
    if _LONG_NUMBER.search(value) is not None:
        raise ConfigError(
            f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED_FORM}, in which"
            f" no number has more than {NUMBER_DIGITS_MAX} digits"
        )


def address_counts(text: str) -> list[tuple[str, int]]:
    """Return the items `host:number` of a text, in which an address of version 6 may stand without brackets.

    Raises ValueError.
    """
    items = [item.rpartition(":") for item in _items(text) if item]
    return [(host.strip("[] "), int(number)) for host, _, number in items]


def _counts_per_address(value: Value) -> Problem | None:
    assert isinstance(value, str), "the numbers per address are a text"
    try:
        counts = address_counts(value)
    except ValueError:
        counts = [("", 0)]
    bad = next((host for host, count in counts if count < 0 or not _HOST.match(host)), None)
    return None if bad is None else Problem(value, "Value must be a list of host:number, such as 127.0.0.1:200")


COUNTS_PER_ADDRESS: Final = _counts_per_address
COMPRESSIONS: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = one_of("compact", "delete")
TIMESTAMP_TYPES: Final = one_of("CreateTime", "LogAppendTime")
GZIP_LEVELS: Final = between_or(1, 9, -1)
LZ4_LEVELS: Final = between(1, 17)
ZSTD_LEVELS: Final = between(-131072, 22)
SEGMENT_BYTES: Final = at_least(1 << 20)


def _items(text: str) -> list[str]:
    """Return the items of a list without the blanks around them."""
    # No pattern: one that begins with blanks takes time quadratic in the blanks of a text.
    items = text.split(",")
    return [item.strip() for item in items] if len(text.split(maxsplit=1)) > 1 else items


def _in_message(value: Value) -> str | None:
    # Java prints a list in brackets if it is refused as a whole.
    if not isinstance(value, tuple):
        return show(value)
    return f"[{', '.join(value)}]"


def _show_double(value: float) -> str:
    """Return Java's `Double.toString`: plain from 0.001 up to 10^7, scientific beyond, always with a point."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    for digits in range(18):
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
