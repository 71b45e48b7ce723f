"""Transactions are not offered: a producer that wants them learns it at once, from whichever client it is made."""

import time
from collections.abc import Callable

import pytest

from tests.interop.agent import Agent, ClientError

REFUSED_WITHIN_S = 10.0


def test_transactional_producer_is_refused_at_once(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """Each library ends with an error about the transactional id, kafkajs about the coordinator; none asks for ever."""
    topic = make_topic(name)
    began_s = time.monotonic()

    with pytest.raises(ClientError, match=r"(?i)transactional|failed to find group coordinator"):
        agent.do("begin_transaction", transactional_id=name, topic=topic)

    assert time.monotonic() - began_s < REFUSED_WITHIN_S
