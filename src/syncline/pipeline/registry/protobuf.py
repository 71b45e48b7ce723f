"""Protobuf: messages of any file that a registry has, without generated code.

The registry gives files as serialized descriptors, so no compiler is needed. A message is a struct; what a field of
Protobuf cannot say it lacks has its default, and fields with presence (`optional`, members of `oneof`, messages) are
null when they are not set. Enumerations are the names of their values, unsigned numbers of 64 bits are decimals,
`google.protobuf.Timestamp` is a timestamp, and the wrapper messages are what they wrap.

Fields that the reader's file does not know are left out, as Protobuf has it: the writer's file is not needed.
Source: Protocol Buffers language guide (proto3), encoding; descriptor.proto.
"""

import base64
import datetime as dt
import decimal
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

# Imported for their files: descriptors of a registry build on them.
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from syncline.pipeline.registry import framing
from syncline.pipeline.registry.kinds import TIMESTAMP, RegisteredSchema, SchemaError, ValueRefused, refusing

# Each behind those that it uses.
_KNOWN_FILES: Final = (
    descriptor_pb2,
    any_pb2,
    source_context_pb2,
    type_pb2,
    api_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
_KNOWN_NAMES: Final = frozenset(known.DESCRIPTOR.name for known in _KNOWN_FILES)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(each.full_name for each in wrappers_pb2.DESCRIPTOR.message_types_by_name.values())
_UNSIGNED_64: Final = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
_SIMPLE: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Protobuf:
    """One reader's or writer's message: that of the name, or the first one of the file."""

    def __init__(self, schema: RegisteredSchema, message: str | None = None) -> None:
        self._schema = schema
        messages = _messages(schema)
        chosen = next(iter(messages)) if message is None else message
        if chosen not in messages:
            raise SchemaError(f"{schema} has no message {chosen}; it has {', '.join(messages)}")
        self._indexes, self._descriptor = messages[chosen]
        self._class = message_factory.GetMessageClass(self._descriptor)
        self.arrow_type = _struct(self._descriptor, schema, ())
        # The names of the messages of each writer's file, by the way to them.
        self._names = {schema.schema_id: {way: name for name, (way, _) in messages.items()}}

    def read(self, writer: RegisteredSchema, value: bytes, position: int) -> Any:
        """Return a message as a dictionary. Raises ValueRefused if it is another message."""
        indexes, position = framing.message_indexes(value, position)
        names = self._names.get(writer.schema_id)
        if names is None:
            names = self._names[writer.schema_id] = {way: name for name, (way, _) in _messages(writer).items()}
        wanted, name = self._descriptor.full_name, names.get(indexes)
        if name != wanted:
            raise ValueRefused(f"a value of {writer} is the message {name or indexes}, not {wanted} of {self._schema}")
        what = f"a value of {writer} cannot be read as {wanted} of {self._schema}"
        return refusing(lambda: _read(self._class.FromString(value[position:])), what)

    def write(self, value: Any) -> bytes:
        """Return the message, and before it which one of the file it is."""

        def payload() -> bytes:
            message = self._class()
            _write(message, value)
            serialized: bytes = message.SerializeToString(deterministic=True)
            return serialized

        written: bytes = refusing(payload, f"a row does not fit {self._descriptor.full_name} of {self._schema}")
        return framing.encoded_indexes(self._indexes) + written


def _messages(schema: RegisteredSchema) -> dict[str, tuple[tuple[int, ...], Descriptor]]:
    """Return all messages of a file by name, with the way to them."""
    pool = descriptor_pool.DescriptorPool()
    for known in _KNOWN_FILES:
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    try:
        for name, text in schema.references:
            if name not in _KNOWN_NAMES:
                file = _file(text)
                # By the name that the file imports.
                file.name = name
                pool.Add(file)
        file = _file(schema.text)
        file.name = file.name or "registered.proto"
        pool.Add(file)
        ways = dict(_ways(file.message_type, file.package, ()))
        messages = {name: (way, pool.FindMessageTypeByName(name)) for name, way in ways.items()}
    except Exception as error:
        raise SchemaError(f"{schema} cannot be read: {error}") from error
    if not messages:
        raise SchemaError(f"{schema} has no message")
    return messages


def _file(text: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))


def _ways(
    types: Iterable[descriptor_pb2.DescriptorProto], within: str, way: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the messages of a file by full name, each with the way to it; what maps are made of is none."""
    for index, each in enumerate(types):
        if not each.options.map_entry:
            name, here = f"{within}.{each.name}".lstrip("."), (*way, index)
            yield name, here
            yield from _ways(each.nested_type, name, here)


def _struct(descriptor: Descriptor, schema: RegisteredSchema, within: tuple[str, ...]) -> pa.DataType:
    name = descriptor.full_name
    if name in within:
        raise SchemaError(f"{schema} contains itself ({name}), which no Spark type can express")
    within = (*within, name)
    return pa.struct([pa.field(each.name, _type(each, schema, within)) for each in descriptor.fields])


def _type(field: FieldDescriptor, schema: RegisteredSchema, within: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        key, item = field.message_type.fields
        return pa.map_(_one(key, schema, within), _one(item, schema, within))
    return pa.list_(_one(field, schema, within)) if field.is_repeated else _one(field, schema, within)


def _one(field: FieldDescriptor, schema: RegisteredSchema, within: tuple[str, ...]) -> pa.DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return _SIMPLE[field.cpp_type]
    inner = field.message_type
    if inner.full_name == _TIMESTAMP:
        return TIMESTAMP
    return _one(inner.fields[0], schema, within) if inner.full_name in _WRAPPERS else _struct(inner, schema, within)


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry)


def _read(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            item = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _read_one(item, each)) for key, each in value.items()]
        elif field.is_repeated:
            found[field.name] = [_read_one(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _read_one(field, value)
    return found


def _read_one(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        # A number that this file has no name for, as JSON has it.
        return str(value) if known is None else known.name
    if field.type in _UNSIGNED_64:
        return decimal.Decimal(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    return _read_one(field.message_type.fields[0], value.value) if name in _WRAPPERS else _read(value)


def _write(message: Any, value: Any) -> None:
    unknown = value.keys() - message.DESCRIPTOR.fields_by_name.keys()
    if unknown:
        raise ValueRefused(f"{message.DESCRIPTOR.full_name} has no field {min(unknown)}")
    for field in message.DESCRIPTOR.fields:
        given = value.get(field.name)
        if given is None:
            continue
        target = getattr(message, field.name)
        if _is_map(field):
            keys, items = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for name, each in given.items():
                key = _written(keys, name)
                if items.message_type is None:
                    target[key] = _written(items, each)
                else:
                    _write_message(target[key], each)
        elif field.is_repeated:
            for each in given:
                if field.message_type is None:
                    target.append(_written(field, each))
                else:
                    _write_message(target.add(), each)
        elif field.message_type is None:
            setattr(message, field.name, _written(field, given))
        else:
            _write_message(target, given)


def _written(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        return int(value) if value.lstrip("-").isdigit() else field.enum_type.values_by_name[value].number
    return int(value) if field.type in _UNSIGNED_64 else value


def _write_message(target: Any, value: Any) -> None:
    name = target.DESCRIPTOR.full_name
    target.SetInParent()
    if name == _TIMESTAMP:
        since = value - _EPOCH
        # Before 1970, too, nanoseconds count forward.
        target.seconds, target.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1_000
    elif name in _WRAPPERS:
        target.value = _written(target.DESCRIPTOR.fields[0], value)
    else:
        _write(target, value)
