"""Names that do not exist: one sentence that says so and suggests the name that was probably meant.

The connector ignores a name that it does not know, which costs users hours; here it is an error that names the right
one. A `kafka.*` name must be a configuration of Kafka's consumers, for readers, or of its producers, for writers.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, NoReturn

from syncline.pipeline.errors import OptionError

KAFKA: Final = "kafka."


def check_kafka(
    name: str, kind: Literal["consumers", "producers"], known: Collection[str], others: Iterable[str]
) -> None:
    """Raise `OptionError` unless `name` is a known configuration; `others` are those of the other kind of client."""
    plain = name.removeprefix(KAFKA)
    if plain in known:
        return
    if plain in others:
        use = "writing" if kind == "consumers" else "reading"
        raise OptionError(f"option {name} is for {use}: Kafka's {kind} have no {plain}; remove it")
    # Nearly right names first, then those that share their beginning: `isolation.levle`, `isolation`.
    close = difflib.get_close_matches(plain, known, n=1, cutoff=0.7)
    close = close or sorted(other for other in known if other.startswith(plain))
    hint = f"; did you mean {KAFKA}{close[0]}?" if close else ""
    raise OptionError(f"option {name} does not exist: Kafka's {kind} have no configuration {plain}{hint}")


def refuse_unknown(
    name: str, names: Iterable[str], configurations: Collection[str], instead: Mapping[str, str]
) -> NoReturn:
    """Raise `OptionError` for a name, in small letters, that is none of `names`.

    `instead` says what to do about names that are usual elsewhere, as the name of another option would mislead.
    """
    if name in instead:
        raise OptionError(f"option {name} does not exist: {instead[name]}")
    by_lower_name = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name, by_lower_name, n=1)
    if name in configurations:
        hint = f"did you mean {KAFKA}{name}?"
    elif close:
        hint = f"did you mean {by_lower_name[close[0]]}?"
    else:
        hint = f"known are {', '.join(by_lower_name.values())}"
    raise OptionError(f"option {name} does not exist; {hint}")
