"""Other words in place of the templates of a module: what does not change with them does not depend on them."""

import string
from collections.abc import Collection, Iterator
from types import ModuleType

import pytest

# Begins the marks of single templates: no letters, and in no template.
_FIRST_MARK = 0x2800


def templates(wording: ModuleType) -> Iterator[tuple[str, object, str]]:
    """Yield each template: the constant's name, the key if it is a table's, and the text."""
    for name, value in vars(wording).items():
        if name.isupper() and isinstance(value, str):
            yield name, None, value
        elif name.isupper() and isinstance(value, dict):
            yield from ((name, key, text) for key, text in value.items())


def replace(monkeypatch: pytest.MonkeyPatch, wording: ModuleType, name: str, key: object, text: str) -> None:
    """Reword one template."""
    if key is None:
        monkeypatch.setattr(wording, name, text)
    else:
        monkeypatch.setitem(getattr(wording, name), key, text)


def mark(
    monkeypatch: pytest.MonkeyPatch, wording: ModuleType, besides: Collection[str] = ()
) -> dict[str, tuple[str, object]]:
    """Replace each template by a mark and its fields, except some constants; return which mark stands for which."""
    marks = {}
    for number, (name, key, text) in enumerate(list(templates(wording))):
        if name in besides:
            continue
        sign = chr(_FIRST_MARK + number)
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
        replace(monkeypatch, wording, name, key, sign + " ".join(f"{{{each}}}" for each in fields))
        marks[sign] = (name, key)
    return marks
