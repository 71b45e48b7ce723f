r"""Patterns of topic names: Java's regular expressions, as Spark's Kafka connector takes them.

The package `regex` knows almost all of Java's syntax, nested and intersected classes, possessive quantifiers and
Unicode properties among it. What it spells otherwise is translated here: `\p{Alnum}` and the other classes of POSIX
(ASCII only in Java), `\Q..\E`, `\k<name>`, `\x{..}`, `\0..`, `\c.`, `\e`, and the flags `d`, `u` and `U`, which make no
difference to topic names because these are ASCII. A pattern must match the whole name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import regex

from syncline.pipeline.errors import OptionError

_MATCH_S_MAX: Final = 5

# Java: ASCII only, unless the flag U says otherwise.
_POSIX: Final[Mapping[str, str]] = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-\x7e",
    "Graph": r"!-\x7e",
    "Print": r"\x20-\x7e",
    "Blank": r"\x20\t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r"\x20\t\n\x0b\f\r",
    "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}",
    "javaAlphabetic": r"\p{Alphabetic}",
    "javaDigit": r"\p{Nd}",
    "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}",
}

_TOKEN: Final = regex.compile(
    r"""
    (?P<quoted> \\Q (?P<text>.*?) (?: \\E | \Z ) )
    | (?P<property> \\ (?P<sign>[pP]) \{ (?P<name>\w+) \} )
    | (?P<reference> \\k<(?P<group>\w+)> )
    | (?P<hex> \\x\{ (?P<digits>[0-9A-Fa-f]{1,6}) \} )
    | (?P<octal> \\0 (?P<octets>[0-3][0-7]{2} | [0-7]{1,2}) )
    | (?P<control> \\c (?P<letter>.) )
    | (?P<escape> \\e )
    | (?P<other> \\. )
    | (?P<flags> \(\? (?P<letters>[a-zA-Z-]+) (?P<end>[:)]) )
    | (?P<open> \[ \^? )
    | (?P<close> \] )
    | (?P<twice> \|\| | -- | ~~ )
    """,
    regex.VERBOSE | regex.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A pattern that whole topic names match; it is pickled as the text that the user wrote."""

    text: str

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches; raise `OptionError` for a pattern that takes seconds to say."""
        try:
            return compiled(self.text).fullmatch(name, timeout=_MATCH_S_MAX) is not None
        except TimeoutError:
            raise OptionError(
                f"option subscribePattern {self.text!r} tries too many ways to match topic {name}: "
                "write a pattern without nested repetitions"
            ) from None


def compiled(java: str) -> Any:
    """Return Java's pattern as one of `regex`; raise `OptionError` if it is none."""
    try:
        return regex.compile(_translated(java), regex.VERSION1 | regex.ASCII)
    except regex.error as error:
        raise OptionError(
            f"option subscribePattern cannot be {java!r}: it is not a Java regular expression: {error}"
        ) from error


def _translated(java: str) -> str:
    depth = 0

    def translate(found: Any) -> str:
        nonlocal depth
        kind = _kind(found)
        if kind == "open":
            if depth and found.string[found.end() : found.end() + 1] == ":":
                # `[:alpha:]` is no class of its own in Java.
                depth += 1
                return str(found[0]) + "\\"
            depth += 1
        elif kind == "close" and depth:
            depth -= 1
        elif kind == "twice" and depth:
            # Operators between sets in `regex`, twice the same character in Java.
            return "".join("\\" + character for character in found[0])
        elif kind in _TRANSLATIONS and not (kind == "flags" and depth):
            return _TRANSLATIONS[kind](found)
        return str(found[0])

    return str(_TOKEN.sub(translate, java))


def _kind(found: Any) -> str:
    return next(kind for kind in _KINDS if found[kind] is not None)


def _property(found: Any) -> str:
    content = _POSIX.get(found["name"])
    if content is None:
        return str(found[0])
    return f"[{'^' if found['sign'] == 'P' else ''}{content}]"


def _flags(found: Any) -> str:
    letters = regex.sub("[duU]", "", found["letters"]).rstrip("-")
    return f"(?{letters}{found['end']}" if letters or found["end"] == ":" else ""


_TRANSLATIONS: Final[Mapping[str, Callable[[Any], str]]] = {
    "quoted": lambda found: str(regex.escape(found["text"], special_only=False)),
    "property": _property,
    "reference": lambda found: f"(?P={found['group']})",
    "hex": lambda found: f"\\U{int(found['digits'], 16):08x}",
    "octal": lambda found: f"\\x{int(found['octets'], 8):02x}",
    "control": lambda found: f"\\x{ord(found['letter']) ^ 64:02x}",
    "escape": lambda _: r"\x1b",
    "flags": _flags,
}
_KINDS: Final = (*_TRANSLATIONS, "other", "open", "close", "twice")
