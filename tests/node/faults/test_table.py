"""The table of faults is consistent, and rules follow it."""

import pytest

from syncline.local import process_faults
from syncline.node.control.verbs import ControlRefused
from syncline.node.faults import disk, links, requests, table
from syncline.node.faults.rules import Rule
from syncline.node.faults.table import BROKER_KINDS, KINDS, OPTIONS, FaultKind, Place

EFFECTS = {Place.DISK: disk, Place.LINK: links, Place.REQUEST: requests, Place.PROCESS: process_faults}
KIND_ROWS = [pytest.param(kind, id=name) for name, kind in KINDS.items()]
MADE_UP = {
    "delay_ms": 5,
    "directions": ["read"],
    "links": [[1, 2]],
    "apis": ["PRODUCE"],
    "error": "NOT_CONTROLLER",
    "topic": "orders",
    "partition": 3,
    "client_id": "billing-*",
    "listener": "internal",
    "errno": "ENOSPC",
    "trigger": "every=2",
    "duration_ms": 1_000,
}


def test_every_option_is_of_some_kind() -> None:
    """An option that no kind takes could never be given."""
    assert {name for kind in KINDS.values() for name in kind.options} == OPTIONS.keys()


@pytest.mark.parametrize("kind", KIND_ROWS)
def test_kind_has_an_effect(kind: FaultKind) -> None:
    """The module of its place imports its name: without an effect, the first operation that it strikes would fail."""
    constants = {name for name, value in vars(table).items() if value == kind.name}

    assert constants & vars(EFFECTS[kind.place]).keys()


@pytest.mark.parametrize("kind", KIND_ROWS)
def test_kind_needs_only_what_it_takes(kind: FaultKind) -> None:
    """Otherwise no user could begin it."""
    assert {name for names in kind.needs for name in names.split()} <= set(kind.options)


@pytest.mark.parametrize("name", BROKER_KINDS)
def test_rule_takes_and_shows_every_field_of_its_kind(name: str) -> None:
    """An option that an operator sets is in force and in `fault list`, for every kind."""
    given = {field: MADE_UP[field] for field in KINDS[name].fields - {"id", "kind"}}
    shown = Rule({"id": "f1", "kind": name, **given}).describe(0)

    assert {field: shown[field] for field in given if field != "duration_ms"} == {
        field: value for field, value in given.items() if field != "duration_ms"
    }


@pytest.mark.parametrize("name", BROKER_KINDS)
def test_rule_refuses_fields_of_other_kinds(name: str) -> None:
    """An option without an effect would make an operator believe in a fault that is not there."""
    given = {field: MADE_UP[field] for field in KINDS[name].fields - {"id", "kind"}}
    foreign = sorted(MADE_UP.keys() - KINDS[name].fields)
    for field in foreign:
        with pytest.raises(ControlRefused, match=f"faults of kind {name} do not take '{field}'"):
            Rule({"id": "f1", "kind": name, **given, field: MADE_UP[field]})
    assert foreign or KINDS[name].place is Place.DISK
