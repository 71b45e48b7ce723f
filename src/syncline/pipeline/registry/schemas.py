"""Schemas from a registry, over HTTP with confluent-kafka's client, which retries and logs in.

A `Registry` travels to Spark's workers inside of functions; each process connects by itself and remembers what it has
fetched, as a schema never changes under its id.
"""

import re
from collections.abc import Callable, Mapping
from json import JSONDecodeError
from typing import Any, Final, TypeVar

from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError

_PROTOBUF: Final = "PROTOBUF"
_SERIALIZED: Final = "serialized"
_NOT_FOUND: Final = 404
_Result = TypeVar("_Result")
# An address that does not answer is given up after two of these, and a pause.
_PATIENCE: Final = {"timeout": 5, "max.retries": 1}
_USER_INFO: Final = re.compile(r"//[^/@]*@")
# What this process has fetched, by registry and options: tasks come with a registry of their own each.
_fetched: Final[dict[tuple[str, str], dict[int, RegisteredSchema]]] = {}


def _version(reference: Any, fmt: str | None) -> Callable[[Any], Any]:
    """Return the question after what a schema refers to."""
    return lambda client: client.get_version(reference.subject, reference.version, fmt=fmt)


class UnknownSchemaError(SchemaError):
    """The registry has no such schema, subject or version."""


class Registry:
    """One registry; `options` are those of confluent-kafka's client, such as `basic.auth.user.info`."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._url = url
        self._options = dict(options or {})
        # What errors and logs call it: a password in the address is no part of that.
        self.name = _USER_INFO.sub("//", url)
        self._known = _fetched.setdefault((url, repr(sorted(self._options.items()))), {})

    def __repr__(self) -> str:
        # The options may hold passwords.
        return f"Registry({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Registry, (self._url, self._options)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Return a schema. Raises SchemaError."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._known[schema_id] = self._by_id(schema_id)
        return known

    def keep(self, schema: RegisteredSchema) -> None:
        """Remember a schema that another process has fetched."""
        self._known.setdefault(schema.schema_id, schema)

    def of_subject(self, subject: str, version: int | None = None) -> RegisteredSchema:
        """Return a version of a subject's schema, by default the newest. Raises SchemaError."""
        what = f"the schema of subject {subject}" + ("" if version is None else f", version {version},")
        found = self._ask(
            what,
            lambda client: (
                client.get_latest_version(subject) if version is None else client.get_version(subject, version)
            ),
        )
        return self.by_id(found.schema_id)

    def registered(self, subject: str, kind: str, text: str) -> RegisteredSchema:
        """Register a schema for a subject, or find it there. Raises SchemaError."""
        schema_id = self._ask(
            f"a schema for subject {subject}", lambda client: client.register_schema(subject, _schema(text, kind))
        )
        return self.by_id(schema_id)

    def _by_id(self, schema_id: int) -> RegisteredSchema:
        what = f"schema {schema_id}"
        schema = self._ask(what, lambda client: client.get_schema(schema_id))
        kind = schema.schema_type or "AVRO"
        fmt = _SERIALIZED if kind == _PROTOBUF else None
        if fmt:
            schema = self._ask(what, lambda client: client.get_schema(schema_id, fmt=fmt))
        references: dict[str, str] = {}
        try:
            self._follow(schema, fmt, references, ())
        except UnknownSchemaError as error:
            # The schema itself is there: nothing is wrong with the value that names it.
            raise SchemaError(f"{what} cannot be read without what it refers to: {error}") from error
        return RegisteredSchema(schema_id, kind, self._text(schema, what), tuple(references.items()))

    def _follow(self, schema: Any, fmt: str | None, found: dict[str, str], through: tuple[str, ...]) -> None:
        """Add what a schema refers to: first what those refer to themselves."""
        for each in schema.references or ():
            if each.name in through:
                raise SchemaError(f"{each.name} of the registry at {self.name} refers to itself")
            if each.name in found:
                continue
            what = f"{each.name} (subject {each.subject}, version {each.version})"
            referred = self._ask(what, _version(each, fmt)).schema
            self._follow(referred, fmt, found, (*through, each.name))
            found[each.name] = self._text(referred, what)

    def _text(self, schema: Any, what: str) -> str:
        if not isinstance(schema.schema_str, str):
            raise SchemaError(f"the registry at {self.name} answers without the text of {what}")
        return schema.schema_str

    def _ask(self, what: str, call: Callable[[Any], _Result]) -> _Result:
        """Return what the registry answers, over a connection of its own: each schema is asked for once."""
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
        except ImportError as error:
            raise SchemaError(
                f"schema registries need more packages ({error}): pip install 'syncline[registry]'"
            ) from error
        try:
            with SchemaRegistryClient({"url": self._url, **_PATIENCE, **self._options}) as client:
                return call(client)
        except SchemaRegistryError as error:
            kind = UnknownSchemaError if error.http_status_code == _NOT_FOUND else SchemaError
            raise kind(
                f"the registry at {self.name} refuses {what}: {error.error_message} (HTTP {error.http_status_code})"
            ) from error
        except JSONDecodeError as error:
            raise SchemaError(f"{self.name} does not answer like a schema registry: is the address right?") from error
        except (ValueError, TypeError) as error:
            raise SchemaError(f"the registry at {self.name} cannot be used with these options: {error}") from error
        except Exception as error:
            # The HTTP library's own errors of connections and certificates, whatever library that is.
            raise SchemaError(f"the registry at {self.name} cannot be reached: {error}") from error


def _schema(text: str, kind: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(text, kind)
