"""JSON Schema: values are JSON texts. What a schema says of their form becomes a type; what it forbids does not.

An object with properties is a struct, one with `additionalProperties` of one kind alone a map, `integer` is a bigint,
`number` a double. A place that may hold several types, or any, is a string of JSON. Properties beside `allOf` and
`$ref` are added up. Properties that a schema does not name are left out, and those that a value lacks are null. Values
that are read are not validated, but for their types. References within the schema and to those that it is registered
with are followed.

Source: JSON Schema, drafts 4 to 2020-12 (type, properties, items, additionalProperties, allOf, oneOf, anyOf, $ref).
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError, ValueRefused, refusing

_LEVELS_MAX: Final = 64
_NULLS: Final = ("null", ["null"])


class What(Enum):
    """What a place holds."""

    STRING = auto()
    INTEGER = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    ANY = auto()
    """The text of its JSON."""
    LIST = auto()
    MAP = auto()
    STRUCT = auto()


class Form(NamedTuple):
    """The form of a place: with the form of the elements of a list, of a map's values, or of each property."""

    what: What
    inner: "Form | None" = None
    properties: "Mapping[str, Form]" = MappingProxyType({})


_ANY: Final = Form(What.ANY)
_SIMPLE: Final = {
    "string": (What.STRING, pa.string()),
    "integer": (What.INTEGER, pa.int64()),
    "number": (What.NUMBER, pa.float64()),
    "boolean": (What.BOOLEAN, pa.bool_()),
}
_ARROW: Final = dict(_SIMPLE.values()) | {What.ANY: pa.string()}


class JsonSchema:
    """One reader's or writer's schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema
        try:
            whole = json.loads(schema.text)
            others = {name: json.loads(text) for name, text in schema.references}
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{schema} cannot be read: {error}") from error
        self._form = _Reader(schema, whole, others).form(whole, "", ())
        self.arrow_type = arrow_type(self._form)

    def read(self, writer: RegisteredSchema, value: bytes, position: int) -> Any:
        """Return a value as this schema has it, whatever schema it was written with."""
        what = f"a value of {writer} cannot be read as {self._schema}"
        return refusing(lambda: _shaped(self._form, json.loads(value[position:]), "the value"), what)

    def write(self, value: Any) -> bytes:
        """Return the JSON text of a value; fields that are null are left out."""

        def text() -> bytes:
            plain = _plain(self._form, value, "the row")
            return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

        written: bytes = refusing(text, f"a row does not fit {self._schema}")
        return written


class _Reader:
    """Turns the documents of one schema into a form."""

    def __init__(self, schema: RegisteredSchema, whole: Any, others: Mapping[str, Any]) -> None:
        self._schema = schema
        # By name; that of the schema itself is empty.
        self._documents = {**others, "": whole}
        own = whole.get("$id") if isinstance(whole, dict) else None
        if isinstance(own, str):
            self._documents.setdefault(own.rstrip("#"), whole)

    def form(self, schema: Any, document: str, through: tuple[tuple[str, str], ...]) -> Form:
        """Return the form of a part; `through` are the references that led here."""
        if not isinstance(schema, dict):
            return _ANY
        if len(through) > _LEVELS_MAX:
            raise self._error(f"is more than {_LEVELS_MAX} levels deep")
        # Levels without a reference count, too: a document may be nested without end.
        through = (*through, ("", ""))
        parts = list(self._parts(schema, document, through))
        if parts:
            return _together([*parts, self._plain_form(schema, document, through)])
        return self._plain_form(schema, document, through)

    def _plain_form(self, schema: Mapping[str, Any], document: str, through: tuple[tuple[str, str], ...]) -> Form:
        """Return what a schema says itself, without `$ref` and `allOf`."""
        kinds = schema.get("type")
        if isinstance(kinds, list):
            kinds = [each for each in kinds if each != "null"]
            kinds = kinds[0] if len(kinds) == 1 else None
        if kinds is None and "type" not in schema:
            choice = self._choice(schema, document, through)
            if choice is not None:
                return choice
        if kinds == "array":
            return Form(What.LIST, self.form(schema.get("items"), document, through))
        properties = schema.get("properties")
        if kinds == "object" or (kinds is None and "type" not in schema and properties is not None):
            if isinstance(properties, dict) and properties:
                named = {name: self.form(each, document, through) for name, each in properties.items()}
                return Form(What.STRUCT, properties=named)
            others = schema.get("additionalProperties")
            if isinstance(others, dict) and others:
                return Form(What.MAP, self.form(others, document, through))
            return _ANY
        return Form(_SIMPLE[kinds][0]) if isinstance(kinds, str) and kinds in _SIMPLE else _ANY

    def _choice(self, schema: Mapping[str, Any], document: str, through: tuple[tuple[str, str], ...]) -> Form | None:
        """Return the form of the one alternative that is not null; None if alternatives are not what gives the form."""
        alternatives = schema.get("oneOf") or schema.get("anyOf")
        if not isinstance(alternatives, list) or "properties" in schema:
            return None
        rest = [each for each in alternatives if not (isinstance(each, dict) and each.get("type") in _NULLS)]
        return self.form(rest[0], document, through) if len(rest) == 1 else _ANY

    def _parts(self, schema: Mapping[str, Any], document: str, through: tuple[tuple[str, str], ...]) -> Iterator[Form]:
        """Yield the forms of what a schema refers to, and of all that must hold at once."""
        if "$ref" in schema:
            place = self._place(schema["$ref"], document)
            if place in through:
                raise self._error(f"contains itself ({schema['$ref']}), which no Spark type can express")
            yield self.form(self._at(place, schema["$ref"]), place[0], (*through, place))
        every = schema.get("allOf")
        if isinstance(every, list):
            yield from (self.form(each, document, through) for each in every)

    def _place(self, reference: Any, document: str) -> tuple[str, str]:
        """Return the document that a reference names, and the path in it."""
        if not isinstance(reference, str):
            raise self._error(f"has a $ref that is not text: {json.dumps(reference)[:80]}")
        name, _, way = reference.partition("#")
        return name or document, unquote(way)

    def _at(self, place: tuple[str, str], reference: str) -> Any:
        document, way = place
        found = self._documents.get(document)
        if way and not way.startswith("/"):
            raise self._error(
                f"refers to {reference}: references by anchor are not followed, only those by path (#/...)"
            )
        try:
            for step in way.split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                found = found[int(name)] if isinstance(found, list) else found[name]  # type: ignore[index]
        except (KeyError, TypeError, IndexError, ValueError):
            found = None
        if found is None:
            raise self._error(f"refers to {reference}, which neither it nor its references contain")
        return found

    def _error(self, what: str) -> SchemaError:
        return SchemaError(f"{self._schema} {what}")


def _together(forms: Sequence[Form]) -> Form:
    """Return the form of what must have all of these; what says nothing is left out."""
    said = [each for each in forms if each.what is not What.ANY]
    if not said:
        return _ANY
    if any(each.what is not What.STRUCT for each in said):
        return said[0] if all(each == said[0] for each in said) else _ANY
    properties: dict[str, Form] = {}
    for each in said:
        for name, form in each.properties.items():
            properties[name] = _together([properties[name], form]) if name in properties else form
    return Form(What.STRUCT, properties=properties)


def arrow_type(form: Form) -> pa.DataType:
    """Return the type of a form."""
    if form.what is What.STRUCT:
        return pa.struct([pa.field(name, arrow_type(each)) for name, each in form.properties.items()])
    if form.inner is None:
        return _ARROW[form.what]
    inner = arrow_type(form.inner)
    return pa.list_(inner) if form.what is What.LIST else pa.map_(pa.string(), inner)


def _shaped(form: Form, value: Any, where: str) -> Any:
    """Return a JSON value as Arrow takes it."""
    if value is None:
        return None
    if form.what is What.ANY:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if form.what is What.STRUCT:
        _check(isinstance(value, dict), "an object", value, where)
        return {name: _shaped(each, value.get(name), name) for name, each in form.properties.items()}
    if form.what is What.LIST and form.inner is not None:
        _check(isinstance(value, list), "an array", value, where)
        return [_shaped(form.inner, each, where) for each in value]
    if form.what is What.MAP and form.inner is not None:
        _check(isinstance(value, dict), "an object", value, where)
        return [(name, _shaped(form.inner, each, name)) for name, each in value.items()]
    return _simple(form, value, where)


def _simple(form: Form, value: Any, where: str) -> Any:
    """Return a string, number or boolean, if that is what the form is."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if form.what is What.STRING:
        _check(isinstance(value, str), "a string", value, where)
    elif form.what is What.BOOLEAN:
        _check(isinstance(value, bool), "a boolean", value, where)
    elif form.what is What.NUMBER:
        _check(is_number and math.isfinite(value), "a number", value, where)
        return float(value)
    else:
        # Of 1.0 JSON Schema says that it is an integer.
        _check(is_number and math.isfinite(value) and value == int(value), "an integer", value, where)
        return int(value)
    return value


def _check(fits: object, wanted: str, value: Any, where: str) -> None:
    if not fits:
        raise ValueRefused(f"{where} is {str(value)[:80]!r} instead of {wanted}")


def _plain(form: Form, value: Any, where: str) -> Any:
    """Return a value from Arrow as JSON has it."""
    if value is None:
        return None
    if form.what is What.ANY:
        return json.loads(value)
    if form.what is What.STRUCT:
        unknown = value.keys() - form.properties.keys()
        if unknown:
            raise ValueRefused(f"{where} has the field {min(unknown)}, which is not in the schema")
        return {name: _plain(form.properties[name], each, name) for name, each in value.items() if each is not None}
    if form.what is What.LIST and form.inner is not None:
        return [_plain(form.inner, each, where) for each in value]
    if form.what is What.MAP and form.inner is not None:
        return {_simple(Form(What.STRING), name, where): _plain(form.inner, each, name) for name, each in value.items()}
    return _simple(form, value, where)
