"""The task that finds the controller: what becomes of a broker when it fails."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from syncline.model.broker_config import BrokerConfig
from syncline.model.metadata import MetadataImage
from syncline.node.channel.identity import BrokerIdentity
from syncline.node.channel.link import ControllerLink
from syncline.node.channel.membership import ClusterMembership
from syncline.node.clock import SystemClock
from syncline.node.links.links import Links


class BrokenStore:
    """A store that cannot be asked, for a reason of ours."""

    def holder(self) -> Any:
        """Fail as an assertion does."""
        raise AssertionError("our bug")


def test_broker_that_can_follow_no_controller_reports_that_and_stops_in_good_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing awaits the task while the broker runs: without a report it would serve on and send no heartbeats."""
    reasons: list[str] = []

    async def scene() -> None:
        loop, wake = asyncio.get_running_loop(), asyncio.Event()
        identity = BrokerIdentity(
            broker_id=2, host="h", port=1, internal_host="h", internal_port=2, rack=None, incarnation_id=UUID(int=2)
        )
        membership = ClusterMembership(
            loop,
            BrokenStore(),
            identity,
            ControllerLink(2, SystemClock(), Links(), wake=wake.set),
            wake,
            config=BrokerConfig,
            image=MetadataImage,
            applied_version=lambda: -1,
            failed_replicas=tuple,
            on_registered=lambda: None,
            on_unfit=reasons.append,
        )
        joining = asyncio.ensure_future(membership.join())
        while not reasons:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        await membership.stop()
        membership.stopped()
        with pytest.raises(asyncio.CancelledError):
            await joining

    asyncio.run(asyncio.wait_for(scene(), 5))

    assert reasons == ["the search for the controller failed: AssertionError('our bug')"]
    assert "broker 2 no longer follows any controller" in caplog.text
