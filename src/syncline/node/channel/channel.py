"""A broker's channel to the controller, assembled from its parts.

    link.py             the two connections, and their state
    membership.py       finding the controller, registering, heartbeats, leaving
    metadata_stream.py  the cluster's metadata: polled, applied
    isr_proposals.py    the ISRs that this broker's leaders propose
    forwards.py         clients' requests that the controller answers
    own_requests.py     requests of this broker for itself
    candidacy.py        the candidacy for the controller lease, and the role while this broker holds it

While the broker is registered, it sends polls, forwarded requests and proposals. docs/controller-channel.md draws the
states.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from syncline.coordination.port import Coordination
from syncline.core.replication.effects import IsrAnswer, ProposeIsr
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.events import Event
from syncline.model.ids import BrokerEpoch
from syncline.model.metadata import MetadataImage
from syncline.node.channel.candidacy import Candidacy
from syncline.node.channel.forwards import Forwards
from syncline.node.channel.identity import BrokerIdentity
from syncline.node.channel.isr_proposals import IsrProposals
from syncline.node.channel.link import ControllerLink
from syncline.node.channel.membership import ClusterMembership
from syncline.node.channel.metadata_stream import MetadataStream, OnImage
from syncline.node.channel.own_requests import OwnRequests
from syncline.node.clock import Clock
from syncline.node.controller.active import ActiveController
from syncline.node.links.links import Links
from syncline.node.serving.request import Request


def _carry_on(_reason: str) -> None:
    """Stay, without a controller."""


class Channel:
    """One broker's channel to the current controller."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        coordination: Coordination,
        config: BrokerConfig,
        identity: BrokerIdentity,
        on_image: OnImage,
        on_event: Callable[[Event], None],
        links: Links | None = None,
        failed_replicas: Callable[[], Sequence[UUID]] = tuple,
        on_unfit: Callable[[str], object] = _carry_on,
        check_invariants: bool = False,
    ) -> None:
        links = links or Links()
        self._config = config
        self._coordination = coordination
        self._checks_invariants = check_invariants
        self._wake = asyncio.Event()
        self.link = ControllerLink(identity.broker_id, clock, links, wake=self._wake.set)
        self._stream = MetadataStream(self.link, on_image=on_image, on_applied=self._applied)
        self._proposals = IsrProposals(loop, clock, self.link)
        self._forwards = Forwards(loop, clock, self.link, config=self._config_now)
        self._own_requests = OwnRequests(self._forwards, self.link, config=self._config_now)
        self.membership = ClusterMembership(
            loop,
            coordination,
            identity,
            self.link,
            self._wake,
            config=self._config_now,
            image=lambda: self.image,
            applied_version=lambda: self._stream.applied_version,
            failed_replicas=failed_replicas,
            on_registered=self._registered,
            on_unfit=on_unfit,
        )
        self._candidacy = Candidacy(
            loop,
            clock,
            rng,
            coordination,
            identity,
            links,
            config=self._config_now,
            on_event=on_event,
            on_won=self._wake.set,
            on_deposed=self.link.close,
            on_observed=self._observed,
            check_invariants=check_invariants,
        )

    def __repr__(self) -> str:
        return f"<channel: {self.link!r}, {self.membership!r}, version {self.image.version}>"

    @property
    def image(self) -> MetadataImage:
        """The metadata that this broker has applied, or is applying."""
        return self._stream.image

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of this process's registration, -1 before it."""
        return self.link.broker_epoch

    @property
    def active(self) -> ActiveController | None:
        """The controller role, while this broker holds the lease."""
        return self._candidacy.active

    @property
    def unanswered_since_ms(self) -> int | None:
        """Since when the controller has not answered, or could not be reached; None while it answers."""
        return self.link.unanswered_since_ms

    @property
    def is_connected(self) -> bool:
        """Whether this broker is connected to the controller and registered over that connection."""
        return self.link.control is not None

    def set_config(self, config: BrokerConfig) -> None:
        """Apply a changed configuration."""
        self._config = config
        if self.active is not None:
            self.active.set_config(config)

    def heartbeat_now(self) -> None:
        """Send a heartbeat at once: the controller should not wait for this broker's news until the next one is due."""
        self._wake.set()

    def propose_isr(
        self, topic_id: UUID, partition: int, proposal: ProposeIsr, answered: Callable[[IsrAnswer], None]
    ) -> None:
        """Propose an ISR; `answered` is called once, unless the broker stops before."""
        self._proposals.propose(topic_id, partition, proposal, answered)

    def forward(self, request: Request) -> None:
        """Forward a client's request to the controller; the client waits for the answer."""
        self._forwards.forward(request)

    async def create_topics(
        self, names: Sequence[str], partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> list[tuple[str, ErrorCode, str | None]]:
        """Create topics that differ in their names alone; return the result of each."""
        return await self._own_requests.create_topics(names, partitions, replication_factor, configs)

    async def producer_id(self) -> int | None:
        """Return an unused producer id; None when no controller answered in time."""
        return await self._own_requests.producer_id()

    async def start(self) -> None:
        """Join the cluster; return when this broker is part of it, its image applied.

        The inter-broker listener must be serving. Raises `RegistrationRefused`.
        """
        self._candidacy.start()
        await self.membership.join()

    async def leave(self, timeout_s: float) -> bool:
        """Hand all leaderships over (controlled shutdown); return whether the controller let this broker stop."""
        return await self.membership.leave(timeout_s)

    async def leave_with_all(self, timeout_s: float) -> bool:
        """Stop together with all other brokers; return whether all are ready, so that this one need not hand over."""
        return await self.membership.leave_with_all(timeout_s)

    async def stop(self) -> None:
        """Give up the lease and close all connections, and those of clients with unanswered requests."""
        self.link.stop()
        self._proposals.stop()
        self._forwards.stop()
        self._candidacy.stop()
        await self.membership.stop()
        self.link.close()
        self._forwards.answer_unsent()
        self._coordination.close()
        self.membership.stopped()

    def _config_now(self) -> BrokerConfig:
        return self._config

    def _registered(self) -> None:
        """Send what waited for a registration."""
        self._stream.poll()
        self._forwards.send()
        self._proposals.send()
        self._check()

    def _applied(self, image: MetadataImage) -> None:
        self.membership.applied(image)
        self._check()

    def _observed(self) -> None:
        if self.link.connections[0] is not None:
            self.link.follow_lease(self._coordination.holder())
        self._forwards.drop_overdue()
        self._check()

    def _check(self) -> None:
        if self._checks_invariants:
            self.check_invariants()

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop, also of the controller role."""
        self.membership.check_invariants()
        self._proposals.check_invariants()
        if self.active is not None:
            self.active.check_invariants()
