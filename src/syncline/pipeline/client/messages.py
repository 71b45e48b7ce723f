"""Kafka messages as bytes: which request in which version, and `kio` messages written and read.

Messages that carry many rows or record batches are written and read by hand in modules of their own; all others are
`kio` messages.
"""

import io
from typing import Any, NamedTuple

from syncline.pipeline.client.refusals import RetriableError


class Api(NamedTuple):
    """A request in one version. Versions that exist with tagged fields only have headers of one byte more."""

    key: int
    version: int
    is_flexible: bool


def encoded(message: Any) -> bytes:
    """Return a `kio` message as bytes."""
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decoded(kind: type[Any], view: memoryview) -> Any:
    """Return the `kio` message in the bytes; raise `RetriableError` if they are none."""
    from kio.serial import entity_reader
    from kio.serial.errors import DecodeError

    try:
        message, _ = entity_reader(kind)(bytes(view), 0)
    except DecodeError as error:
        raise RetriableError(f"a response cannot be read: {error!r}") from error
    return message
