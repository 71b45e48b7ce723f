"""JSON Schema: values are JSON texts. What a schema says of their form becomes a type; what it forbids does not.

An object with properties is a struct, one with `additionalProperties` of one kind alone a map, `integer` is a bigint,
`number` a double. A place that may hold several types, or any, is a string of JSON. Properties that a schema does not
name are left out, and those that a value lacks are null. Values are not validated: the registry's own clients do that
when they write. References within the schema and to those that it is registered with are followed.

Source: JSON Schema, drafts 4 to 2020-12 (type, properties, items, additionalProperties, oneOf, anyOf, $ref).
"""

import datetime as dt
import decimal
import json
from typing import Any, Final

import pyarrow as pa

from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError, ValueRefused, refusing

_SIMPLE: Final = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
# A place with any content: the text of its JSON. Told apart from a string, which stands for itself.
_ANY: Final = "any"


class JsonSchema:
    """One reader's or writer's schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema
        try:
            self._whole = json.loads(schema.text)
            self._others = {name: json.loads(text) for name, text in schema.references}
        except ValueError as error:
            raise SchemaError(f"{schema} cannot be read: {error}") from error
        self._form = self._form_of(self._whole, self._whole, ())
        self.arrow_type = _arrow_type(self._form)

    def read(self, writer: RegisteredSchema, value: bytes, position: int) -> Any:
        """Return a value as this schema has it, whatever schema it was written with."""
        what = f"a value of {writer} cannot be read as {self._schema}"
        return refusing(lambda: _shaped(self._form, json.loads(value[position:]), "the value"), what)

    def write(self, value: Any) -> bytes:
        """Return the JSON text of a value; fields that are null are left out."""
        plain = refusing(lambda: _plain(self._form, value), f"a row does not fit {self._schema}")
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()

    def _form_of(self, schema: Any, root: Any, through: tuple[str, ...]) -> Any:
        """Return a type's name, [form] of a list, {"": form} of a map, or forms by property."""
        if not isinstance(schema, dict):
            return _ANY
        reference = schema.get("$ref")
        if reference is not None:
            if reference in through:
                raise SchemaError(f"{self._schema} contains itself ({reference}), which no type of Spark can")
            found, its_root = self._referred(reference, root)
            return self._form_of(found, its_root, (*through, reference))
        kinds = schema.get("type")
        alternatives = schema.get("oneOf") or schema.get("anyOf") or ()
        choices = [each for each in alternatives if each != {"type": "null"}]
        if choices:
            return self._form_of(choices[0], root, through) if len(choices) == 1 else _ANY
        if isinstance(kinds, list):
            kinds = [each for each in kinds if each != "null"]
            kinds = kinds[0] if len(kinds) == 1 else None
        if kinds == "array":
            return [self._form_of(schema.get("items"), root, through)]
        if kinds == "object" or (kinds is None and "properties" in schema):
            properties = schema.get("properties")
            if properties:
                return {name: self._form_of(each, root, through) for name, each in properties.items()}
            others = schema.get("additionalProperties")
            return {"": self._form_of(others, root, through)} if isinstance(others, dict) and others else _ANY
        return kinds if kinds in _SIMPLE else _ANY

    def _referred(self, reference: str, root: Any) -> tuple[Any, Any]:
        """Return what a reference points to, and the document that has it."""
        name, _, path = reference.partition("#")
        document = self._others.get(name) if name else root
        found: Any = document
        try:
            for step in filter(None, path.split("/")):
                found = found[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            found = None
        if found is None:
            raise SchemaError(f"{self._schema} refers to {reference}, which neither it nor its references have")
        return found, document


def _arrow_type(form: Any) -> pa.DataType:
    if isinstance(form, list):
        return pa.list_(_arrow_type(form[0]))
    if isinstance(form, dict):
        if "" in form:
            return pa.map_(pa.string(), _arrow_type(form[""]))
        return pa.struct([pa.field(name, _arrow_type(each)) for name, each in form.items()])
    return _SIMPLE.get(form, pa.string())


def _shaped(form: Any, value: Any, where: str) -> Any:
    """Return a JSON value as Arrow takes it."""
    if value is None:
        return None
    if form == _ANY:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(form, list):
        _check(isinstance(value, list), "an array", value, where)
        return [_shaped(form[0], each, where) for each in value]
    if isinstance(form, dict):
        _check(isinstance(value, dict), "an object", value, where)
        if "" in form:
            return [(name, _shaped(form[""], each, name)) for name, each in value.items()]
        return {name: _shaped(each, value.get(name), name) for name, each in form.items()}
    if form == "integer" and isinstance(value, float) and value.is_integer():
        # Of 1.0 JSON Schema says that it is an integer.
        return int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "number": is_number,
        "integer": is_number and isinstance(value, int),
    }
    _check(fits[form], f"a value of type {form}", value, where)
    return float(value) if form == "number" else value


def _check(fits: object, wanted: str, value: Any, where: str) -> None:
    if not fits:
        raise ValueRefused(f"{where} is {json.dumps(value)[:80]} instead of {wanted}")


def _plain(form: Any, value: Any) -> Any:
    """Return a value from Arrow as JSON has it."""
    if value is None:
        return None
    if form == _ANY:
        return json.loads(value)
    if isinstance(form, list):
        return [_plain(form[0], each) for each in value]
    if isinstance(form, dict):
        if "" in form:
            return {name: _plain(form[""], each) for name, each in dict(value).items()}
        return {name: _plain(form[name], each) for name, each in value.items() if each is not None}
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return float(value) if isinstance(value, decimal.Decimal) else value
