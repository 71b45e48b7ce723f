"""The two connections to the controller, also when the broker gives up the controller while it connects."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from syncline.coordination.port import Holder
from syncline.node.channel.link import ControllerLink
from syncline.node.channel.states import LinkState
from syncline.node.links.peer import PeerLost

HOLDER = Holder(1, "host", 9093, 4)


class Clock:
    """A clock that does not move."""

    def mono_ms(self) -> int:
        """Return the time."""
        return 7


class Peer:
    """A connection that is open until it is closed."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        """Close."""
        self.is_open = False


class Links:
    """Makes connections when the test says so; `before` is called with the number of each, and may raise."""

    def __init__(self, before: Callable[[int], None] = lambda _number: None) -> None:
        self.made: list[Peer] = []
        self.before = before

    async def connect(self, *_where: Any) -> Peer:
        """Return the next connection."""
        await asyncio.sleep(0)
        self.before(len(self.made) + 1)
        self.made.append(Peer())
        return self.made[-1]


def link_over(links: Links) -> ControllerLink:
    """Return the link of a broker that searches for the controller."""
    link = ControllerLink(2, Clock(), links, wake=lambda: None)
    link.start()
    return link


def test_link_registers_over_two_connections() -> None:
    """The control connection carries requests only after the controller has granted the registration."""
    links = Links()
    link = link_over(links)
    control = asyncio.run(link.open(HOLDER))
    early = (control, link.state, link.control)
    is_current = link.granted(5)
    link.check_invariants()

    assert early == (links.made[0], LinkState.REGISTERING, None)
    assert is_current
    assert (link.state, link.control, link.stream) == (LinkState.REGISTERED, *links.made)
    assert (link.broker_epoch, link.lease_epoch, link.is_open) == (5, 4, True)


@pytest.mark.parametrize("number", [pytest.param(1, id="first"), pytest.param(2, id="second")])
def test_link_leaves_no_connection_open_when_it_is_given_up_while_it_connects(number: int) -> None:
    """The controller is deposed meanwhile: connections that open later are closed, too."""
    links = Links(lambda made: link.close() if made == number else None)
    link = link_over(links)
    control = asyncio.run(link.open(HOLDER))
    link.check_invariants()

    assert (control, link.state) == (None, LinkState.SEARCHING)
    assert [each.is_open for each in links.made] == [False] * number


def test_link_to_a_new_lease_holder_is_not_given_up_between_its_two_connections() -> None:
    """The store is looked at every half second; a second connection that takes longer would else never be made."""
    later = HOLDER._replace(lease_epoch=5)
    links = Links(lambda made: link.follow_lease(later) if made == 4 else None)
    link = link_over(links)
    asyncio.run(link.open(HOLDER))
    link.close()
    control = asyncio.run(link.open(later))

    assert (control, link.state) == (links.made[2], LinkState.REGISTERING)


def test_link_closes_the_first_connection_when_the_second_cannot_be_made() -> None:
    """A broker with one connection would be neither dead nor alive."""

    def refuse_second(number: int) -> None:
        if number == 2:
            raise PeerLost("refused")

    links = Links(refuse_second)
    link = link_over(links)
    control = asyncio.run(link.open(HOLDER))
    link.check_invariants()

    assert (control, link.state, link.unanswered_since_ms) == (None, LinkState.SEARCHING, 7)
    assert [each.is_open for each in links.made] == [False]


def test_grant_that_comes_after_the_link_was_given_up_is_remembered_and_not_used() -> None:
    """The broker has that epoch, because the controller has committed it, but it has no connection."""
    link = link_over(Links())
    asyncio.run(link.open(HOLDER))
    link.close()
    is_current = link.granted(5)
    link.check_invariants()

    assert not is_current
    assert (link.broker_epoch, link.state, link.control) == (5, LinkState.SEARCHING, None)


def test_stopped_link_searches_no_more() -> None:
    """A connection that breaks after the stop leaves the link stopped."""
    link = link_over(Links())
    asyncio.run(link.open(HOLDER))
    link.stop()
    link.close()

    assert (link.state, link.connections) == (LinkState.STOPPED, (None, None))


def test_broker_epoch_never_goes_back() -> None:
    """A grant older than the last one is a bug."""
    link = link_over(Links())
    asyncio.run(link.open(HOLDER))
    link.granted(5)

    with pytest.raises(AssertionError, match="broker epoch 4 was granted after 5"):
        link.granted(4)
