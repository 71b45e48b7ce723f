"""Files of Protobuf, made without a compiler."""

import base64
from typing import Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from syncline.pipeline.registry.kinds import RegisteredSchema

TIMESTAMP_FILE: Final = "google/protobuf/timestamp.proto"
WRAPPERS_FILE: Final = "google/protobuf/wrappers.proto"


def file(
    *messages: descriptor_pb2.DescriptorProto,
    name: str = "shop.proto",
    uses: tuple[str, ...] = (),
    enums: tuple[descriptor_pb2.EnumDescriptorProto, ...] = (),
) -> descriptor_pb2.FileDescriptorProto:
    """Return a proto3 file of the package `shop`."""
    return descriptor_pb2.FileDescriptorProto(
        name=name, package="shop", syntax="proto3", message_type=messages, dependency=uses, enum_type=enums
    )


def message(name: str, *fields: Field, **options: object) -> descriptor_pb2.DescriptorProto:
    """Return a message; its fields are numbered from 1 on."""
    for number, each in enumerate(fields, start=1):
        each.number = number
    return descriptor_pb2.DescriptorProto(name=name, field=fields, **options)


def field(name: str, kind: int, type_name: str = "", *, repeated: bool = False, **options: object) -> Field:
    """Return a field; `type_name` is that of a message or an enumeration, with a dot before it."""
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    return Field(name=name, type=kind, type_name=type_name or None, label=label, **options)


def text_of(content: descriptor_pb2.FileDescriptorProto) -> str:
    """Return a file as registries give it."""
    return base64.b64encode(content.SerializeToString()).decode()


def registered(
    content: descriptor_pb2.FileDescriptorProto, schema_id: int = 1, *others: descriptor_pb2.FileDescriptorProto
) -> RegisteredSchema:
    """Return a registered schema."""
    return RegisteredSchema(
        schema_id, "PROTOBUF", text_of(content), tuple((each.name, text_of(each)) for each in others)
    )
