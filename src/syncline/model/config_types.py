"""Configuration values: from text to a typed value and back, with Kafka's words for what is wrong.

Every value arrives as text (file, command line, AlterConfigs) and leaves as
text (DescribeConfigs); in between it is a bool, int, float, str or a tuple of
strings. Parsing follows Java, since clients compare what they wrote with what
they read back: numbers are bounded by their type, a double prints as
`1.0E10`, blanks around a value and around the items of a list do not count.
Source: Kafka's ConfigDef.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None

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


class UpdateMode(Enum):
    """When a broker configuration may change."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"
    PER_BROKER = "per-broker"


class ConfigError(ValueError):
    """A configuration is unknown or its value unusable; the text is Kafka's and names both."""


class Problem(NamedTuple):
    """What is wrong with a value, or with one item of it."""

    value: Value
    text: str


# Returns what is wrong with a parsed value, None if nothing is.
Check = Callable[[Value], Problem | None]

_INTEGER_BITS: Final[Mapping[ConfigType, int]] = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
# No number needs more; Python refuses to read one of thousands of digits.
_INTEGER: Final = re.compile(r"[+-]?\d{1,1000}\Z")
_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")
_THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?\Z")
_THROTTLED_FORM: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """One configuration: its name, type, default as text (None: no value) and rules."""

    name: str
    kind: ConfigType
    default: str | None
    check: Check | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    documentation: str = ""
    # Broker configurations that give the value when this one is not set, most specific first.
    synonyms: tuple[str, ...] = ()
    # Neither listed nor documented: for tests, under Kafka's name where it has one.
    hidden: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is never shown."""
        return self.kind is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return the value of `text`; raises `ConfigError`."""
        value = self._parse_type(text.strip())
        problem = None if self.check is None else self.check(value)
        if problem is not None:
            shown = _in_message(problem.value)
            raise ConfigError(f"Invalid value {shown} for configuration {self.name}: {problem.text}")
        return value

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
            try:
                return float(text.replace("_", "?"))
            except ValueError:
                raise self._not_a_number(text) from None
        if kind is ConfigType.LIST:
            return tuple(_LIST_SEPARATOR.split(text)) if text else ()
        return text

    def _not_a_number(self, text: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {self.name}: Not a number of type {self.kind.name}")


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
    """Return a check of two bounds beside which one more value is allowed."""

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
        return None if bad is None else Problem(bad, f"String must be one of: {', '.join(allowed)}")

    return check


def throttled_replicas(name: str) -> Check:
    """Return the check of a list of throttled replicas: "*", or items `partition:broker`, empty ones included."""

    def check(value: Value) -> Problem | None:
        assert isinstance(value, tuple), "throttled replicas are a list"
        if "".join(value) == "*" or all(_THROTTLED.match(item) for item in value):
            return None
        return Problem(
            value, f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED_FORM}"
        )

    return check


def _in_message(value: Value) -> str | None:
    # Java prints a list that is refused as a whole in brackets.
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
