"""Schemas from a registry, over HTTP with confluent-kafka's client, which retries and logs in.

A `Registry` travels to Spark's workers inside of functions; each process connects by itself and remembers what it has
fetched, as a schema never changes under its id.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError

_PROTOBUF: Final = "PROTOBUF"
_SERIALIZED: Final = "serialized"
_NOT_FOUND: Final = 404
_Result = TypeVar("_Result")
# Before a worker gives up on an address that does not answer.
_TIMEOUT_S: Final = 10


def _version(reference: Any, fmt: str | None) -> Callable[[Any], Any]:
    """Return the question after what a schema refers to."""
    return lambda client: client.get_version(reference.subject, reference.version, fmt=fmt)


class UnknownSchemaError(SchemaError):
    """The registry has no such schema, subject or version."""


class Registry:
    """One registry; `options` are those of confluent-kafka's client, such as `basic.auth.user.info`."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self.url = url
        self._options = dict(options or {})
        self._known: dict[int, RegisteredSchema] = {}

    def __repr__(self) -> str:
        # The options may hold passwords.
        return f"Registry({self.url})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Registry, (self.url, self._options)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Return a schema. Raises SchemaError."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._known[schema_id] = self._by_id(schema_id)
        return known

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
        from confluent_kafka.schema_registry import Schema

        schema_id = self._ask(
            f"a schema for subject {subject}", lambda client: client.register_schema(subject, Schema(text, kind))
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
        self._follow(schema, fmt, references)
        return RegisteredSchema(schema_id, kind, schema.schema_str, tuple(references.items()))

    def _follow(self, schema: Any, fmt: str | None, found: dict[str, str]) -> None:
        """Add what a schema refers to: first what those refer to themselves."""
        for each in schema.references or ():
            if each.name in found:
                continue
            what = f"{each.name} (subject {each.subject}, version {each.version})"
            referred = self._ask(what, _version(each, fmt)).schema
            self._follow(referred, fmt, found)
            found[each.name] = referred.schema_str

    def _ask(self, what: str, call: Callable[[Any], _Result]) -> _Result:
        """Return what the registry answers, over a connection of its own: each schema is asked for once."""
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
        except ImportError as error:
            raise SchemaError(
                f"schema registries need more packages ({error}): pip install 'syncline[registry]'"
            ) from error
        try:
            with SchemaRegistryClient({"url": self.url, "timeout": _TIMEOUT_S, **self._options}) as client:
                return call(client)
        except SchemaRegistryError as error:
            kind = UnknownSchemaError if error.http_status_code == _NOT_FOUND else SchemaError
            raise kind(
                f"the registry at {self.url} refuses {what}: {error.error_message} (HTTP {error.http_status_code})"
            ) from error
        except (ValueError, TypeError) as error:
            raise SchemaError(f"the registry at {self.url} cannot be used: {error}") from error
        except Exception as error:
            # The HTTP library's own errors of connections and certificates, whatever library that is.
            raise SchemaError(f"the registry at {self.url} cannot be reached: {error}") from error
