"""What the kinds of schemas have in common: a schema with all that it refers to, and the names of Spark's types."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from syncline.pipeline.errors import PipelineError


class SchemaError(PipelineError):
    """A schema cannot be fetched, read or expressed in Spark's types; the message names it and what to do."""


class ValueRefused(PipelineError):
    """A value does not fit its schema; the message says where."""


class RegisteredSchema(NamedTuple):
    """One schema of a registry, with the texts of the schemas that it refers to: those come before what needs them."""

    schema_id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    """Of Protobuf: the serialized FileDescriptorProto in base64."""
    references: tuple[tuple[str, str], ...] = ()
    """By the name by which the schema refers to each, and its text."""

    def __str__(self) -> str:
        return f"schema {self.schema_id} ({self.kind})"


class Kind(Protocol):
    """One kind of schema, as one reader or writer sees it."""

    @property
    def arrow_type(self) -> pa.DataType:
        """Return the type of the column."""

    def read(self, writer: RegisteredSchema, value: bytes, position: int) -> Any:
        """Return the value whose payload begins at `position`, as `pyarrow.array` takes it. Raises ValueRefused."""

    def write(self, value: Any) -> bytes:
        """Return the payload of a value that came from Arrow. Raises ValueRefused."""


def spark_type(arrow_type: pa.DataType) -> str:
    """Return the same type in Spark's language."""
    types = pa.types
    if types.is_struct(arrow_type):
        return f"struct<{', '.join(f'{quoted(each.name)}: {spark_type(each.type)}' for each in arrow_type)}>"
    if types.is_map(arrow_type):
        return f"map<{spark_type(arrow_type.key_type)}, {spark_type(arrow_type.item_type)}>"
    if types.is_list(arrow_type):
        return f"array<{spark_type(arrow_type.value_type)}>"
    if types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision}, {arrow_type.scale})"
    if types.is_timestamp(arrow_type):
        return "timestamp" if arrow_type.tz else "timestamp_ntz"
    return _NAMES[arrow_type]


_NAMES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.null(): "void",
}
TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")


def quoted(name: str) -> str:
    """Return a field's name as Spark's language needs it."""
    return "`" + name.replace("`", "``") + "`"


def refusing(work: Callable[[], Any], what: str) -> Any:
    """Return what `work` returns; what it raises about a value or a schema becomes a ValueRefused that says `what`."""
    try:
        return work()
    except PipelineError:
        raise
    except Exception as error:
        raise ValueRefused(f"{what}: {type(error).__name__}: {error}") from error
