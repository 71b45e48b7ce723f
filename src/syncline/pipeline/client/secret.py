"""Secrets: text that no log, plan, traceback or error sentence may show.

A password or a token is wrapped as soon as it is read, and unwrapped where bytes are made of it. The wrapper prints as
`[hidden]`, so that every dataclass around it may be printed. It travels pickled to tasks, which need it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

HIDDEN: Final = "[hidden]"
# Shorter text may be part of any sentence; hiding it would only reveal it.
_CHARACTERS_MIN: Final = 3


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A password, a token or a private key; only `text` shows it."""

    text: str

    def __repr__(self) -> str:
        return HIDDEN


def without(message: str, secrets: Iterable[Secret]) -> str:
    """Return a foreign message, such as a broker's, with each secret hidden: it may repeat what was sent."""
    for secret in sorted(secrets, key=lambda each: -len(each.text)):
        if len(secret.text) >= _CHARACTERS_MIN:
            message = message.replace(secret.text, HIDDEN)
    return message
