"""JAAS lines: what Kafka's `sasl.jaas.config` says, as users paste it from their other clients.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";

One login module, a flag without meaning here, options, and a semicolon. Values may be quoted by " or ', with
backslashes as in Java; comments are those of Java. As for Kafka, a line has one module only. It holds passwords, so no
message repeats any of it but names of options.

Source: JAAS login configuration files, and KIP-85.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from syncline.pipeline.client.secret import Secret

LINE_CHARACTERS_MAX: Final = 65_536
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
# No alternative can match at the place of another, so the time is linear in the line's length.
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<word>[^\s"'=;/\\{}]+)
      | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-3][0-7]{2}|[0-7]{1,2})|(.))", re.DOTALL)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(Exception):
    """The line is not a JAAS line; the message says where and why, and repeats no value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module, by its class's name without the package, and its options; each value may be secret."""

    module: str
    options: Mapping[str, Secret]


class _Token(NamedTuple):
    kind: str
    text: str
    character: int

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign


def parse(line: str) -> JaasEntry:
    """Return the login module and options of a JAAS line; raise `JaasError` if it is none."""
    if len(line) > LINE_CHARACTERS_MAX:
        raise JaasError(f"it is longer than {LINE_CHARACTERS_MAX} characters")
    tokens = [*_tokens(line), _Token("end", "", len(line) + 1)]
    if [token.kind for token in tokens[:2]] != ["word", "word"] or tokens[1].text.lower() not in _FLAGS:
        raise JaasError("it must begin with a login module and the word required")
    options: dict[str, Secret] = {}
    position = 2
    while not tokens[position].is_sign(";"):
        name, value = _option(tokens[position : position + 3])
        if name in options:
            raise JaasError(f"option {name} occurs twice")
        options[name] = value
        position += 3
    if tokens[position + 1].kind != "end":
        raise JaasError(f"there is something after the semicolon, at character {tokens[position + 1].character}")
    return JaasEntry(tokens[0].text.rpartition(".")[2], options)


def _option(tokens: list[_Token]) -> tuple[str, Secret]:
    """Return name and value of the option that these three tokens are."""
    for token in tokens:
        if token.kind == "end":
            raise JaasError("it must end with a semicolon")
    name, sign, value = tokens
    if name.kind not in {"word", "quoted"} or not sign.is_sign("=") or value.kind not in {"word", "quoted"}:
        raise JaasError(f'what begins at character {name.character} is not option="value"')
    return name.text, Secret(value.text)


def _tokens(line: str) -> Iterator[_Token]:
    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            what = "an unterminated quotation" if line[position] in "\"'" else "something unexpected"
            raise JaasError(f"{what} begins at character {position + 1}")
        kind = match.lastgroup
        assert kind is not None, "every alternative is a group"
        if kind in {"double", "single"}:
            yield _Token("quoted", _unescaped(match[kind]), position + 1)
        elif kind != "space":
            yield _Token(kind, match[kind], position + 1)
        position = match.end()


def _unescaped(quoted: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)) if match[1] else _LETTERS.get(match[2], match[2]), quoted)
