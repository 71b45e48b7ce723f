"""A broker's candidacy for the controller role, and the role while it holds the lease.

A broker that wins the lease connects to its own controller over the network as to any other, so that there is one
path. Each candidate checks the store at intervals and deposes a holder that does not renew the lease.

Invariant: the lease epochs that a broker wins increase.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from syncline.coordination.port import Coordination, Holder, Lease
from syncline.model.broker_config import BrokerConfig
from syncline.model.events import Event
from syncline.node.channel.identity import BrokerIdentity
from syncline.node.clock import Clock
from syncline.node.controller.active import ActiveController
from syncline.node.links.links import Links

log = logging.getLogger("syncline.controller")

# How often a broker checks in the store which broker holds the lease and whether it renews it. A holder that does not
# is noticed one session time-out after the last check that saw a renewal.
OBSERVE_S: Final = 0.5


class Candidacy:
    """One broker's candidacy."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        coordination: Coordination,
        identity: BrokerIdentity,
        links: Links,
        *,
        config: Callable[[], BrokerConfig],
        on_event: Callable[[Event], None],
        on_won: Callable[[], None],
        on_deposed: Callable[[], None],
        on_observed: Callable[[], None],
        check_invariants: bool,
    ) -> None:
        # The controller role, while this broker holds the lease.
        self.active: ActiveController | None = None
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._coordination = coordination
        self._identity = identity
        self._links = links
        self._config = config
        self._on_event = on_event
        self._on_won = on_won
        self._on_deposed = on_deposed
        # Called after each check of the store.
        self._on_observed = on_observed
        self._checks_invariants = check_invariants
        self._lease_epoch = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Become a candidate for the lease."""
        identity = self._identity
        candidate = Holder(identity.broker_id, identity.internal_host, identity.internal_port, 0)
        self._coordination.campaign(candidate, self._won)
        self._observe()

    def stop(self) -> None:
        """Give up the lease and the candidacy."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        active, self.active = self.active, None
        if active is not None:
            active.stop()
            self._coordination.resign(active.lease_epoch)

    def _won(self, lease: Lease) -> None:
        if self._is_stopped:
            return
        log.info("broker %s is the controller, lease %s", self._identity.broker_id, lease.lease_epoch)
        assert lease.lease_epoch > self._lease_epoch, f"lease {lease.lease_epoch} after lease {self._lease_epoch}"
        self._lease_epoch = lease.lease_epoch
        if self.active is not None:
            self.active.stop()
        self.active = ActiveController(
            loop=self._loop,
            clock=self._clock,
            rng=self._rng,
            coordination=self._coordination,
            lease=lease,
            config=self._config(),
            broker_id=self._identity.broker_id,
            incarnation_id=self._identity.incarnation_id,
            on_event=self._on_event,
            on_deposed=self._deposed,
            links=self._links,
            check_invariants=self._checks_invariants,
        )
        self._on_won()

    def _deposed(self) -> None:
        self.active = None
        self._on_deposed()

    def _observe(self) -> None:
        if self._is_stopped:
            return
        session_timeout_ms = self._config().broker_session_timeout_ms
        self._timer = self._loop.call_later(min(OBSERVE_S, session_timeout_ms / 18_000), self._observe)
        self._coordination.observe(self._clock.mono_ms(), session_timeout_ms)
        self._on_observed()
