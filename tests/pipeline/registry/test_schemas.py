"""Schemas over HTTP: what is fetched once, what a registry refuses, and what no worker or log gets to see."""

import json
import pickle

import pytest

from syncline.pipeline.registry.kinds import SchemaError
from syncline.pipeline.registry.schemas import Registry, UnknownSchemaError
from tests.pipeline.registry.files import file, message, text_of
from tests.pipeline.registry.server import schema_server

LONG = {"schema": '"long"'}


def test_schema_is_fetched_once_by_each_process() -> None:
    """Also one that came by pickle knows how to ask."""
    with schema_server() as server:
        number = server.register("s", LONG)
        registry = Registry(server.url)
        schema = registry.by_id(number)
        asked = len(server.asked)

        assert (schema.schema_id, schema.kind, schema.text) == (number, "AVRO", '"long"')
        assert registry.by_id(number) is schema
        assert len(server.asked) == asked
        assert pickle.loads(pickle.dumps(registry)).by_id(number) == schema


def test_newest_version_of_a_subject_or_the_named_one() -> None:
    """A subject is told by its name as it is, also with a slash."""
    with schema_server() as server:
        first, second = (server.register("a/b", {"schema": text}) for text in ('"int"', '"long"'))
        registry = Registry(server.url)

        assert registry.of_subject("a/b").schema_id == second
        assert registry.of_subject("a/b", 1).schema_id == first
        assert registry.registered("a/b", "AVRO", '"int"').schema_id == first
        assert registry.registered("c", "JSON", '{"type":"integer"}').kind == "JSON"


def test_references_come_in_the_order_in_which_they_are_needed() -> None:
    """Of a schema that refers to one that refers to a third; each once."""
    with schema_server() as server:
        server.register("c", {"schema": json.dumps("C")})
        to_c = {"name": "c", "subject": "c", "version": 1}
        server.register("b", {"schema": json.dumps("B"), "references": [to_c]})
        to_b = {"name": "b", "subject": "b", "version": 1}
        number = server.register("a", {"schema": json.dumps("A"), "references": [to_b, to_c]})

        assert Registry(server.url).by_id(number).references == (("c", '"C"'), ("b", '"B"'))


def test_file_of_protobuf_is_asked_for_in_binary() -> None:
    """So that nothing here compiles."""
    with schema_server() as server:
        text = text_of(file(message("M")))
        number = server.register("p", {"schema": text, "schemaType": "PROTOBUF"})
        schema = Registry(server.url).by_id(number)

        assert (schema.kind, schema.text) == ("PROTOBUF", text)
        assert server.queries[-1] == "format=serialized"


def test_registry_that_refuses_is_named_with_what_it_refused() -> None:
    """And one that does not answer; the password is in no message."""
    with schema_server(user="alice:secret") as server:
        with pytest.raises(SchemaError, match=r"refuses schema 1: Unauthorized \(HTTP 401\)"):
            Registry(server.url).by_id(1)
        known = Registry(server.url, {"basic.auth.user.info": "alice:secret"})
        with pytest.raises(UnknownSchemaError, match=r"refuses schema 1: Schema 1 not found. \(HTTP 404\)"):
            known.by_id(1)
        with pytest.raises(UnknownSchemaError, match=r"subject nobody: Subject 'nobody' not found"):
            known.of_subject("nobody")
        assert "secret" not in repr(known)
    with pytest.raises(SchemaError, match=f"registry at {server.url} cannot be reached") as refused:
        Registry(server.url, {"basic.auth.user.info": "alice:secret", "max.retries": 0}).by_id(1)
    assert "secret" not in str(refused.value)
    with pytest.raises(SchemaError, match="registry at nowhere cannot be used"):
        Registry("nowhere").by_id(1)
