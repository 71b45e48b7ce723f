"""A broker's membership: find the controller, register, send heartbeats, and leave in good order.

One task does all of this in a cycle:

    search ──> connect ──> register ──> heartbeats, one per interval, until the connection breaks ──> search

The search reads the store every few milliseconds at first, then less often. `states.py` has the states and their
events. Functions that do not await decide what follows from an answer.

Invariants: the broker is ready once an image shows its own registration as active; only a registered link carries
heartbeats; a broker that stops with all others sends none.
Source: KIP-631 (registration and heartbeats), KIP-841 (fenced and leaving brokers).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Final
from uuid import UUID

from syncline.coordination.port import Coordination
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch
from syncline.model.metadata import BrokerRecord, MetadataImage
from syncline.node.channel.identity import BrokerIdentity
from syncline.node.channel.link import ControllerLink
from syncline.node.channel.states import DEPARTURE, DepartureEvent, DepartureState, LinkState, Machine
from syncline.node.controller.private_messages import decode_error, encode_stop
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.wire.api import ApiKey
from syncline.wire.codec import request_type
from syncline.wire.entities import build
from syncline.wire.errors import DecodeError

log = logging.getLogger("syncline.controller")

SEARCH_FIRST_S: Final = 0.002
SEARCH_LAST_S: Final = 0.25
LEAVE_HEARTBEAT_S: Final = 0.02

_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 1


class RegistrationRefused(Exception):
    """A broker cannot join the cluster, and trying again would not help."""


class _Verdict(Enum):
    """How the controller answered a registration."""

    GRANTED = "granted"
    # Another process with this id is registered, and not known to be dead.
    DUPLICATE = "duplicate"
    OTHER_CLUSTER = "other cluster"
    NOT_NOW = "not now"


class ClusterMembership:
    """One broker's place in the cluster."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        coordination: Coordination,
        identity: BrokerIdentity,
        link: ControllerLink,
        wake: asyncio.Event,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
        applied_version: Callable[[], int],
        failed_replicas: Callable[[], Sequence[UUID]],
        on_registered: Callable[[], None],
        on_unfit: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._coordination = coordination
        self._identity = identity
        self._link = link
        # Set when there is something to do before the current pause ends.
        self._wake = wake
        self._config = config
        self._image = image
        self._applied_version = applied_version
        self._failed_replicas = failed_replicas
        self._on_registered = on_registered
        # Called when the task has failed: a broker that sends no heartbeats would go on serving what it has lost.
        self._on_unfit = on_unfit
        self._departure = Machine(DEPARTURE, DepartureState.STAYING)
        self._ready: asyncio.Future[None] = loop.create_future()
        self._may_stop: asyncio.Future[None] = loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._last_verdict = _Verdict.NOT_NOW

    def __repr__(self) -> str:
        return f"<membership of broker {self._identity.broker_id}: {self._link.state.value}, {self.departure.value}>"

    @property
    def departure(self) -> DepartureState:
        """Whether the broker wants to leave, and how."""
        return self._departure.state

    async def join(self) -> None:
        """Return when this broker is part of the cluster, its image applied; raises `RegistrationRefused`."""
        self._link.start()
        self._task = self._loop.create_task(self._follow())
        self._task.add_done_callback(self._ended)
        timeout_s = self._config().initial_broker_registration_timeout_ms / 1_000
        timer = self._loop.call_later(timeout_s, self._not_in_time, timeout_s)
        try:
            await self._ready
        finally:
            timer.cancel()

    def applied(self, image: MetadataImage) -> None:
        """Check this broker's own record in an image that the whole broker has applied."""
        record = self._own(image)
        if record is None:
            return
        if record.active and not self._ready.done():
            assert self._link.broker_epoch == record.broker_epoch, f"ready with the record of {record.broker_epoch}"
            self._ready.set_result(None)
        if record.fenced and self.departure not in {DepartureState.LEAVING, DepartureState.RELEASED}:
            # The controller fences this broker until a heartbeat shows that it has applied its own registration.
            self._wake.set()

    def _own(self, image: MetadataImage) -> BrokerRecord | None:
        """Return the record of this process's registration."""
        record = image.brokers.get(self._identity.broker_id)
        return record if record is not None and record.broker_epoch == self._link.broker_epoch else None

    def _not_in_time(self, timeout_s: float) -> None:
        if self._last_verdict is _Verdict.DUPLICATE:
            self._refuse(
                f"another process has registered with this id, and lived on for {timeout_s:g} s."
                " Stop that one, or give this one another id"
            )
        else:
            self._refuse(
                f"no controller took it within {timeout_s:g} s."
                " The brokers' logs tell who should be the controller, and what it lacks"
            )

    def _refuse(self, why: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(RegistrationRefused(f"broker {self._identity.broker_id} cannot join: {why}."))

    async def leave(self, timeout_s: float) -> bool:
        """Hand all leaderships over (controlled shutdown); return whether the controller let this broker stop."""
        if self._task is None or self._link.state is LinkState.STOPPED:
            return False
        self._departure.happened(DepartureEvent.LEAVE)
        self._wake.set()
        timer = self._loop.call_later(timeout_s, self._stop_waiting)
        try:
            await self._may_stop
        except asyncio.CancelledError:
            if not self._may_stop.cancelled():
                raise
            return False
        finally:
            timer.cancel()
        return True

    def _stop_waiting(self) -> None:
        if not self._may_stop.done():
            self._may_stop.cancel()

    async def leave_with_all(self, timeout_s: float) -> bool:
        """Stop together with all other brokers; return whether all are ready, so that this one need not hand over."""
        if self._task is None or self._link.state is LinkState.STOPPED:
            return False
        self._departure.happened(DepartureEvent.STOP_WITH_ALL)
        deadline_s = self._loop.time() + timeout_s
        while self._loop.time() < deadline_s:
            error = await self._ask_to_stop(deadline_s - self._loop.time())
            record = self._own(self._image())
            if error is ErrorCode.NONE or (record is not None and record.fenced):
                self._departure.happened(DepartureEvent.PERMITTED)
                return True
            if error is ErrorCode.REQUEST_TIMED_OUT:
                break
            # The next controller may be another broker, or this one.
            await asyncio.sleep(LEAVE_HEARTBEAT_S)
        self._departure.happened(DepartureEvent.NOT_ALL_READY)
        self._wake.set()
        return False

    async def _ask_to_stop(self, timeout_s: float) -> ErrorCode:
        link = self._link
        control = link.control
        if control is None:
            return ErrorCode.NOT_CONTROLLER
        body = encode_stop(link.broker_id, link.broker_epoch)
        try:
            async with asyncio.timeout(timeout_s):
                return decode_error(await control.request_raw(ApiKey.STOP_TOGETHER, 0, (body,)), 0)
        except (PeerLost, DecodeError):
            return ErrorCode.NOT_CONTROLLER
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT

    async def stop(self) -> None:
        """End the search and the heartbeats."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def stopped(self) -> None:
        """End `join` if it still waits."""
        if not self._ready.done():
            self._ready.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            # Our bug.
            log.error("broker %s no longer follows any controller", self._identity.broker_id, exc_info=error)
            self._on_unfit(f"the search for the controller failed: {error!r}")

    async def _follow(self) -> None:
        link = self._link
        pause_s = SEARCH_FIRST_S
        while link.state is not LinkState.STOPPED:
            holder = self._coordination.holder()
            control = None if holder is None else await link.open(holder)
            if control is not None:
                try:
                    if await self._stay(control):
                        pause_s = SEARCH_FIRST_S
                except OSError as error:
                    # The connection broke, the controller does not answer, or there is no descriptor for an import.
                    log.debug("broker %s lost the controller: %r", self._identity.broker_id, error)
                finally:
                    link.close()
            self._wake.clear()
            await self._sleep(pause_s)
            pause_s = min(SEARCH_LAST_S, pause_s * 1.5)

    async def _stay(self, control: PeerConnection) -> bool:
        """Register, and send heartbeats until the connection breaks; return False if registering failed."""
        link = self._link
        reply = await self._in_time(
            control.request(ApiKey.BROKER_REGISTRATION, _REGISTRATION_VERSION, self._registration())
        )
        if self._registration_answered(reply) is not _Verdict.GRANTED:
            return False
        if not link.granted(BrokerEpoch(int(reply.broker_epoch))):
            return True
        self._on_registered()
        # With the control connection alone the broker would send heartbeats but get no metadata.
        while link.state is LinkState.REGISTERED and link.is_open:
            self._wake.clear()
            if self.departure in {DepartureState.STAYING, DepartureState.LEAVING}:
                link.wait_for_answer()
                heartbeat = control.request(ApiKey.BROKER_HEARTBEAT, _HEARTBEAT_VERSION, self._heartbeat())
                if not self._heartbeat_answered(await self._in_time(heartbeat)):
                    return True
            interval_s = self._config().broker_heartbeat_interval_ms / 1_000
            await self._sleep(interval_s if self.departure is not DepartureState.LEAVING else LEAVE_HEARTBEAT_S)
        return True

    async def _sleep(self, seconds: float) -> None:
        """Wait this long, or until there is something to do."""
        timer = self._loop.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _in_time(self, asking: Awaitable[Any]) -> Any:
        """Return an answer of the controller; raises TimeoutError after the session time-out.

        An open connection may no longer deliver anything. Without a time-out, a broker whose registration was lost
        on such a connection would never join the cluster.
        """
        async with asyncio.timeout(self._config().broker_session_timeout_ms / 1_000):
            return await asking

    def _registration(self) -> Any:
        identity = self._identity
        return build(
            request_type(ApiKey.BROKER_REGISTRATION, _REGISTRATION_VERSION),
            {
                "broker_id": identity.broker_id,
                "cluster_id": identity.cluster_id or self._image().cluster_id,
                "incarnation_id": identity.incarnation_id,
                "listeners": [
                    {"name": "CLIENT", "host": identity.host, "port": identity.port, "security_protocol": 0},
                    {
                        "name": "INTERNAL",
                        "host": identity.internal_host,
                        "port": identity.internal_port,
                        "security_protocol": 0,
                    },
                ],
                "features": (),
                "rack": identity.rack,
                "log_dirs": (),
                "previous_broker_epoch": identity.previous_broker_epoch,
            },
        )

    def _registration_answered(self, reply: Any) -> _Verdict:
        error = ErrorCode(int(reply.error_code))
        if error is ErrorCode.NONE:
            # Keep the last refusal: it explains why a waiting broker is not ready in time.
            return _Verdict.GRANTED
        self._last_verdict = _Verdict.NOT_NOW
        if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._last_verdict = _Verdict.DUPLICATE
        elif error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._last_verdict = _Verdict.OTHER_CLUSTER
            self._refuse(
                f"its data belongs to cluster {self._identity.cluster_id}, not to this one."
                " Use another data directory, or remove this one if its data may go"
            )
        return self._last_verdict

    def _heartbeat(self) -> Any:
        link = self._link
        return build(
            request_type(ApiKey.BROKER_HEARTBEAT, _HEARTBEAT_VERSION),
            {
                "broker_id": link.broker_id,
                "broker_epoch": link.broker_epoch,
                "current_metadata_offset": self._applied_version(),
                "want_fence": False,
                "want_shut_down": self.departure is DepartureState.LEAVING,
                "offline_log_dirs": tuple(self._failed_replicas()),
            },
        )

    def _heartbeat_answered(self, reply: Any) -> bool:
        """Apply the controller's answer; return False if the broker has to register again."""
        if ErrorCode(int(reply.error_code)) is not ErrorCode.NONE:
            return False
        self._link.answered()
        if reply.should_shut_down and self.departure is DepartureState.LEAVING:
            self._departure.happened(DepartureEvent.PERMITTED)
            if not self._may_stop.done():
                self._may_stop.set_result(None)
        return True

    def check_invariants(self) -> None:
        """Assert that link and departure agree."""
        self._link.check_invariants()
        if self.departure is DepartureState.RELEASED:
            assert self._link.broker_epoch > 0, "released without ever being registered"
