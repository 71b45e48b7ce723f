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
    """Tasks come with a registry of their own each, by pickle; one with other credentials asks for itself."""
    with schema_server() as server:
        number = server.register("s", LONG)
        registry = Registry(server.url)
        schema = registry.by_id(number)
        asked = len(server.asked)

        assert (schema.schema_id, schema.kind, schema.text) == (number, "AVRO", '"long"')
        assert pickle.loads(pickle.dumps(registry)).by_id(number) is schema
        assert len(server.asked) == asked
        Registry(server.url, {"basic.auth.user.info": "a:b"}).by_id(number)
        assert len(server.asked) > asked


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


def test_reference_that_is_missing_or_a_circle_is_no_fault_of_the_value() -> None:
    """So it is not what permissive queries leave out."""
    with schema_server() as server:
        lost = server.register(
            "a", {"schema": json.dumps("A"), "references": [{"name": "x", "subject": "x", "version": 1}]}
        )
        to_itself = {"name": "b", "subject": "b", "version": 1}
        circle = server.register("b", {"schema": json.dumps("B"), "references": [to_itself]})
        for number, words in ((lost, "without what it refers to"), (circle, "refers to itself")):
            with pytest.raises(SchemaError, match=words) as refused:
                Registry(server.url).by_id(number)
            assert not isinstance(refused.value, UnknownSchemaError)


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


def test_password_in_an_address_is_in_no_message() -> None:
    """Some write it there."""
    registry = Registry("http://alice:secret@127.0.0.1:1", {"max.retries": 0})
    with pytest.raises(SchemaError, match=r"registry at http://127\.0\.0\.1:1 cannot be reached") as refused:
        registry.by_id(1)
    assert "secret" not in str(refused.value) + repr(registry)


@pytest.mark.parametrize(
    ("content", "words"), [("<html>", "does not answer like a schema registry"), ("{}", "without the text")]
)
def test_server_that_is_no_registry_is_told(content: str, words: str) -> None:
    """A page of a web server, and an empty answer."""
    with schema_server() as server:
        server.says = content
        with pytest.raises(SchemaError, match=words):
            Registry(server.url).by_id(1)
