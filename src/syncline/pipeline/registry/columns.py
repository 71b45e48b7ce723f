"""Columns of Spark from values that a schema registry describes, and back.

    registry = SchemaRegistry("http://localhost:8081")
    orders = read.select(registry.decoded("value", subject="orders-value").alias("order"))
    written = orders.select(registry.encoded("order", subject="orders-value").alias("value"))

The type of a decoded column is that of one schema, the reader's: by default the newest of the subject when the query is
made. Values written with other schemas are read by the rules of their kind; workers fetch those when they meet them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from syncline.pipeline.errors import OptionError, PipelineError
from syncline.pipeline.registry import framing
from syncline.pipeline.registry.kinds import Kind, RegisteredSchema, SchemaError, ValueRefused, spark_type
from syncline.pipeline.registry.schemas import Registry, UnknownSchemaError
from syncline.pipeline.tracebacks import plainly

if TYPE_CHECKING:
    from pyspark.sql import Column

Mode: TypeAlias = Literal["failfast", "permissive"]
_MODES: Final = ("failfast", "permissive")
# How to learn which record a value belongs to.
_UNNAMED: Final = 'decoded(..., at=["topic", "partition", "offset"]) shows which record'
# What Arrow raises for a value that its column cannot hold.
_MISFITS: Final = (pa.ArrowException, OverflowError, TypeError, ValueError)


class SchemaRegistry:
    """A registry in queries; `options` are those of confluent-kafka's client, such as `basic.auth.user.info`."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._registry = Registry(url, options)

    def decoded(
        self,
        column: "str | Column",
        *,
        subject: str,
        version: int | None = None,
        message: str | None = None,
        mode: Mode = "failfast",
        at: Sequence[str] = (),
    ) -> "Column":
        """Return a column of framed bytes decoded by the schema of a subject; null stays null.

        `message` names a Protobuf message, by default the first of the file. A value that cannot be read fails the
        query, or is null if the mode is `permissive`. `at` names columns that tell records apart, such as `topic`,
        `partition` and `offset`: the error has what they hold beside the value. Raises SchemaError, OptionError.
        """
        from pyspark.sql.functions import arrow_udf

        if mode not in _MODES:
            raise OptionError(f"the mode must be one of {', '.join(_MODES)}, not {mode!r}")
        at = [at] if isinstance(at, str) else at
        decoder = Decoder(self._registry, self._registry.of_subject(subject, version), message, mode, at)
        return arrow_udf(_in_task(decoder.decode), spark_type(decoder.arrow_type))(column, *at)

    def encoded(
        self,
        column: "str | Column",
        *,
        subject: str,
        version: int | None = None,
        message: str | None = None,
    ) -> "Column":
        """Return a column as framed bytes by the schema of a subject; null stays null.

        The column's fields must have the names of the schema's. Raises SchemaError.
        """
        from pyspark.sql.functions import arrow_udf

        encoder = Encoder(self._registry.of_subject(subject, version), message)
        return arrow_udf(_in_task(encoder.encode), "binary")(column)

    def register(self, subject: str, schema: str, kind: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO") -> int:
        """Register a schema for a subject, unless it is there, and return its id. Raises SchemaError."""
        return self._registry.registered(subject, kind, schema).schema_id


def _in_task(turn: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """Return the function for Spark's workers, from which our errors reach the user without a traceback."""

    def turned(*columns: pa.Array) -> pa.Array:
        with plainly():
            return turn(*columns)

    # Spark names the column after the function.
    turned.__name__ = turn.__name__
    return turned


def kind_of(schema: RegisteredSchema, message: str | None) -> Kind:
    """Return what reads and writes values of a schema. Raises SchemaError, also if its library is missing."""
    if message is not None and schema.kind != "PROTOBUF":
        raise SchemaError(f"{schema} has no messages; `message` is for Protobuf")
    try:
        if schema.kind == "AVRO":
            from syncline.pipeline.registry.avro import Avro

            return Avro(schema)
        if schema.kind == "JSON":
            from syncline.pipeline.registry.json_schema import JsonSchema

            return JsonSchema(schema)
        if schema.kind == "PROTOBUF":
            from syncline.pipeline.registry.protobuf import Protobuf

            return Protobuf(schema, message)
    except ImportError as error:
        raise SchemaError(f"{schema} needs more packages ({error}): pip install 'syncline[registry]'") from error
    raise SchemaError(f"{schema} is of an unknown kind; known are AVRO, JSON and PROTOBUF")


class _Lazy:
    """A kind of schema, made once in each process: neither parsed schemas nor classes of messages can be pickled."""

    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        self._schema = schema
        self._message = message
        self._kind: Kind | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Lazy, (self._schema, self._message)

    def __call__(self) -> Kind:
        if self._kind is None:
            self._kind = kind_of(self._schema, self._message)
        return self._kind


class Decoder:
    """Turns framed bytes into values of the reader's schema."""

    def __init__(
        self,
        registry: Registry,
        schema: RegisteredSchema,
        message: str | None,
        mode: Mode,
        at: Sequence[str] = (),
    ) -> None:
        self._at = tuple(at)
        self._registry = registry
        self._schema = schema
        self._kind = _Lazy(schema, message)
        self._mode = mode
        self._unknown: dict[int, UnknownSchemaError] = {}

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the column."""
        return self._kind().arrow_type

    def decode(self, column: pa.Array, *places: pa.Array) -> pa.Array:
        """Return the values; `places` are the columns that `at` names. Raises SchemaError, FramingError, ValueRefused.

        The error names the record of the first value that cannot be read.
        """
        self._registry.keep(self._schema)
        values: list[Any] = []
        try:
            # Those before the one that fails are kept, and so tell its row.
            values.extend(None if each is None else self._value(each) for each in column.to_pylist())
        except PipelineError as error:
            if _is_of_registry(error):
                raise
            raise type(error)(f"{error}{self._record(len(values), places)}") from error
        try:
            return pa.array(values, self.arrow_type)
        except _MISFITS as error:
            if self._mode == "failfast":
                row = next((row for row, each in enumerate(values) if not self._fits(each)), None)
                where = "" if row is None else self._record(row, places)
                what = f"values do not fit the type of their column, of {self._schema}: {error}{where}"
                raise ValueRefused(what) from error
        return pa.array([each if self._fits(each) else None for each in values], self.arrow_type)

    def _record(self, row: int, places: Sequence[pa.Array]) -> str:
        """Return which record a row is, as the end of a sentence."""
        if not places:
            return f" ({_UNNAMED})"
        named = (f"{name} {place[row].as_py()}" for name, place in zip(self._at, places, strict=True))
        return f" ({', '.join(named)})"

    def _value(self, value: bytes) -> Any:
        try:
            schema_id, position = framing.unframed(value)
            if schema_id in self._unknown:
                raise self._unknown[schema_id]
            writer = self._registry.by_id(schema_id)
            if writer.kind != self._schema.kind:
                raise ValueRefused(f"the value is of {writer}, but the column is of {self._schema}")
            return self._kind().read(writer, value, position)
        except UnknownSchemaError as error:
            if self._mode == "failfast":
                raise
            # Bytes that only look framed name any number: each is asked for once.
            self._unknown[schema_id] = error
        except PipelineError as error:
            if self._mode == "failfast" or _is_of_registry(error):
                raise
        return None

    def _fits(self, value: Any) -> bool:
        try:
            pa.array([value], self.arrow_type)
        except _MISFITS:
            return False
        return True


def _is_of_registry(error: PipelineError) -> bool:
    """Return whether nothing is wrong with the value: its registry cannot be asked, or its schema has no Spark type."""
    return isinstance(error, SchemaError) and not isinstance(error, UnknownSchemaError)


class Encoder:
    """Turns values into framed bytes."""

    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        self._kind = _Lazy(schema, message)
        self._frame = framing.frame(schema.schema_id)
        # A wrong schema is refused before the query runs.
        self._kind()

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the bytes. Raises ValueRefused."""
        kind, frame = self._kind(), self._frame
        rows = column.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if each is None else frame + kind.write(each) for each in rows], pa.binary())
