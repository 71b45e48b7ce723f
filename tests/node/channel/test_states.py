"""The states of a broker's membership: the transition tables, and that no transition happens outside them."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from syncline.node.channel.states import (
    DEPARTURE,
    LINK,
    DepartureEvent,
    DepartureState,
    LinkEvent,
    LinkState,
    Machine,
)

BOTH = pytest.mark.parametrize(
    ("table", "first"),
    [pytest.param(LINK, LinkState.NEW, id="link"), pytest.param(DEPARTURE, DepartureState.STAYING, id="departure")],
)


@BOTH
def test_every_state_has_its_row_and_can_be_reached(table: Mapping[Any, Mapping[Any, Any]], first: Enum) -> None:
    """A state without a row would end the broker with its first event; one out of reach is dead code."""
    reached = {first}
    while more := {after for state in reached for after in table[state].values()} - reached:
        reached |= more

    assert reached == set(table) == set(type(first))


@BOTH
def test_machine_refuses_what_its_table_does_not_have(table: Mapping[Any, Mapping[Any, Any]], first: Enum) -> None:
    """In every state, each event either has a transition, or fails the assertion and leaves the state as it is."""
    events = {event for row in table.values() for event in row}
    for state, row in table.items():
        for event in events:
            machine: Machine[Any, Any] = Machine(table, state)
            if event in row:
                machine.happened(event)
            else:
                with pytest.raises(AssertionError, match=f"{event.name} in state {state.name}"):
                    machine.happened(event)

            assert machine.state is row.get(event, state)


def test_stopped_link_stays_stopped() -> None:
    """An event that arrives after the broker stops must not start another search."""
    assert set(LINK[LinkState.STOPPED].values()) == {LinkState.STOPPED}


def test_only_a_search_that_connected_and_registered_ends_in_registered() -> None:
    """One transition leads to REGISTERED, so code that needs a registration may check that state alone."""
    ways = [(state, event) for state, row in LINK.items() for event, after in row.items() if after.name == "REGISTERED"]

    assert ways == [(LinkState.REGISTERING, LinkEvent.GRANTED)]


def test_broker_is_released_by_permission_alone() -> None:
    """It stops serving only when the controller allows it, or after its own timeout."""
    ways = [event for row in DEPARTURE.values() for event, after in row.items() if after is DepartureState.RELEASED]

    assert set(ways) == {DepartureEvent.PERMITTED, DepartureEvent.LEAVE}
    assert DEPARTURE[DepartureState.RELEASED] == {DepartureEvent.LEAVE: DepartureState.RELEASED}
