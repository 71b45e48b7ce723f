"""Messages as typed entities, through `kio`: all messages except those of the hot path.

One hard idea: importing all schemas takes longer than starting a broker, so each
(key, version) is imported with its first message. A parent that forks brokers
calls `preload` for those that every start needs.

`kio` trusts the counts of arrays, so they are checked first (`announced_counts`).
It copies what it reads, so an entity may outlive the receive buffer. It refuses
writable buffers, so it gets bodies as read-only views. It also refuses tagged fields
that it does not know, which a reader must ignore (KIP-482); such messages are read
in steps (`stepwise`).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from syncline.records.buffers import Buffer
from syncline.wire.api import ApiKey
from syncline.wire.errors import DecodeError, UnknownTagError
from syncline.wire.rows import is_long

Entity = Any
_Read = Callable[[memoryview, int], tuple[Entity, int]]
_CheckCounts = Callable[[memoryview, int], int]
_Writer = Callable[[io.BytesIO, Entity], None]

_REQUEST: Final = "request"
_RESPONSE: Final = "response"
# Messages with more fields than Kafka's.
_OWN: Final = {
    (35, 4, _RESPONSE): "syncline.wire.describe_log_dirs_v4",
    (45, 1, _REQUEST): "syncline.wire.reassignments_v1",
    (45, 1, _RESPONSE): "syncline.wire.reassignments_v1",
    (46, 0, _RESPONSE): "syncline.wire.list_reassignments_v0",
    (56, 3, _REQUEST): "syncline.wire.alter_partition_v3",
}

_modules: Final[dict[tuple[int, int, str], ModuleType]] = {}
_readers: Final[dict[tuple[int, int, str], tuple[_Read, _CheckCounts | None]]] = {}
_writers: Final[dict[type[Entity], _Writer]] = {}


def request_type(key: int, version: int) -> Entity:
    """Return the `kio` class of a request."""
    return _entity_type(key, version, _REQUEST)


def response_type(key: int, version: int) -> Entity:
    """Return the `kio` class of an answer."""
    return _entity_type(key, version, _RESPONSE)


def decode_request(key: int, version: int, body: Buffer, position: int = 0) -> Entity:
    """Return the request whose body begins at `position`; ignore bytes after it, as Kafka does.

    Raises DecodeError.
    """
    return _decode(key, version, _REQUEST, body, position)


def decode_request_in_steps(
    key: int,
    version: int,
    body: Buffer,
    position: int = 0,
    kept_max: Mapping[str, int] | None = None,
    *,
    at_once_bytes_max: int = 0,
    named: list[Any] | None = None,
) -> Generator[None, None, Entity]:
    """Return what `decode_request` returns, in steps; `body` must stay as it is until the end.

    Of the request's own lists named in `kept_max`, only so many items are kept; the others are read and dropped.
    A request of at most `at_once_bytes_max` is read in one call, and all its items are kept.
    `named` gets the items of arrays that are read in steps (`stepwise.decode_in_steps`).
    """
    if len(body) - position <= at_once_bytes_max:
        try:
            return _decode_plain(key, version, _REQUEST, body, position)
        except UnknownTagError:
            # Each item with such a field takes ten times as long.
            yield
    return (yield from _decode_in_steps(key, version, _REQUEST, body, position, kept_max, named))


def decode_response(key: int, version: int, body: Buffer, position: int = 0) -> Entity:
    """Return the answer whose body begins at `position`. Raises DecodeError."""
    return _decode(key, version, _RESPONSE, body, position)


def encode_request(entity: Entity, _key: int | None = None, _version: int | None = None) -> bytes:
    """Return the body of a request; the entity knows its key and version."""
    return _encode(entity)


def encode_response(entity: Entity, _key: int | None = None, _version: int | None = None) -> bytes:
    """Return the body of an answer; the entity knows its key and version."""
    return _encode(entity)


def encode_fields(key: int, version: int, fields: Mapping[str, Any]) -> bytes | Generator[None, None, bytes]:
    """Return the body of the answer with these fields (see `entities.build`); of a long one, the steps to it."""
    from syncline.wire.entities import build

    entity_type = response_type(key, version)
    if is_long(fields):
        from syncline.wire.stepwise import encode_in_steps

        return encode_in_steps(entity_type, fields)
    return _encode(build(entity_type, fields))


def preload(messages: Iterable[tuple[int, int]]) -> None:
    """Import and compile request and answer of each (key, version)."""
    for key, version in messages:
        _reader(key, version, _REQUEST)
        _writer(response_type(key, version))


def _module(key: int, version: int, direction: str) -> ModuleType:
    wanted = (key, version, direction)
    module = _modules.get(wanted)
    if module is None:
        _spare_hypothesis()
        name = ApiKey(key).name.lower()
        try:
            # The package imports both directions. Where one thread imports it and another one of its modules, each
            # waits for the other, which importlib refuses (_DeadlockError): so all begin with the package.
            module = import_module(f"kio.schema.{name}.v{version}")
            if wanted in _OWN:
                module = import_module(_OWN[wanted])
        except ModuleNotFoundError as error:
            raise DecodeError(f"{name} version {version} has no schema here") from error
        _modules[wanted] = module
    return module


def _spare_hypothesis() -> None:
    """Import `kio` without its test support.

    Where Hypothesis is installed, `kio` registers generators with it, which costs a quarter of a second at the first
    request; no broker needs them. If a test has already imported Hypothesis, this does nothing.
    """
    if "kio.static" in sys.modules or "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]


def _entity_type(key: int, version: int, direction: str) -> Entity:
    module = _module(key, version, direction)
    name = "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    return getattr(module, name + direction.capitalize())


def _reader(key: int, version: int, direction: str) -> tuple[_Read, _CheckCounts | None]:
    wanted = (key, version, direction)
    reader = _readers.get(wanted)
    if reader is None:
        entity_type = _entity_type(key, version, direction)
        from kio.serial import entity_reader

        from syncline.wire.announced_counts import count_checker

        reader = _readers[wanted] = entity_reader(entity_type), count_checker(entity_type)
    return reader


def _writer(entity_type: type[Entity]) -> _Writer:
    writer = _writers.get(entity_type)
    if writer is None:
        from kio.serial import entity_writer

        writer = _writers[entity_type] = entity_writer(entity_type)
    return writer


def _decode(key: int, version: int, direction: str, body: Buffer, position: int) -> Entity:
    try:
        return _decode_plain(key, version, direction, body, position)
    except UnknownTagError:
        pass
    decoding = _decode_in_steps(key, version, direction, body, position, None, None)
    while True:
        try:
            next(decoding)
        except StopIteration as end:
            return end.value


def _decode_in_steps(
    key: int,
    version: int,
    direction: str,
    body: Buffer,
    position: int,
    kept_max: Mapping[str, int] | None,
    named: list[Any] | None,
) -> Generator[None, None, Entity]:
    from syncline.wire.stepwise import decode_in_steps

    view = (body if isinstance(body, memoryview) else memoryview(body)).toreadonly()
    try:
        entity, _ = yield from decode_in_steps(_entity_type(key, version, direction), view, position, kept_max, named)
    except GeneratorExit:
        raise
    except OSError:
        # A schema could not be imported for want of descriptors: that says nothing about the bytes.
        raise
    except Exception as error:
        raise _malformed(key, version, direction, error) from error
    return entity


def _decode_plain(key: int, version: int, direction: str, body: Buffer, position: int) -> Entity:
    read, check_counts = _reader(key, version, direction)
    view = (body if isinstance(body, memoryview) else memoryview(body)).toreadonly()
    try:
        if check_counts is not None:
            check_counts(view, position)
        return read(view, position)[0]
    except KeyError as error:
        raise UnknownTagError(f"{ApiKey(key).name} version {version} {direction}: {error}") from None
    except Exception as error:
        raise _malformed(key, version, direction, error) from error


def _malformed(key: int, version: int, direction: str, error: Exception) -> DecodeError:
    """Return the refusal of a peer's bytes.

    kio has its own DecodeError, but also raises others (ValueError for varints, OverflowError for times). Any
    exception while decoding a peer's bytes means that the bytes are malformed.
    """
    return DecodeError(f"{ApiKey(key).name} version {version} {direction}: {error}")


def _encode(entity: Entity) -> bytes:
    out = io.BytesIO()
    _writer(type(entity))(out, entity)
    return out.getvalue()
