"""What the metrics of a broker use of it: for type checkers alone, since it names most parts of a broker."""

from collections.abc import Mapping
from typing import Protocol

from syncline.model.ids import BrokerEpoch
from syncline.node.clients.clients import Clients
from syncline.node.counting.counters import Counters
from syncline.node.faults.on_demand import FaultsOnDemand
from syncline.node.fetching.serving import FetchServing
from syncline.node.hosting.replicas import HostedReplicas
from syncline.node.lag.on_demand import LagOnDemand
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.serving.connection import Connection
from syncline.node.throttle.throttles import ReplicationThrottles
from syncline.node.views.parts import HasPartitions, MayBeController, RunsTasks
from syncline.node.views.values import HasBrokerId, HasClock, HasConfig, HasImage
from syncline.storage.log_directory import LogDirectory


class HasServer(Protocol):
    """The connections and the number of requests."""

    @property
    def connections(self) -> Mapping[Connection, None]:
        """Return the open connections."""

    @property
    def clients(self) -> Clients:
        """Return what the connections share."""

    @property
    def holds(self) -> LoopHolds:
        """Return how long callbacks held the event loop."""

    @property
    def counts(self) -> dict[int, int]:
        """Return the number of requests, by `request_kind`."""


class ScrapedBroker(HasBrokerId, HasClock, HasConfig, HasImage, HasPartitions, MayBeController, RunsTasks, Protocol):
    """What the metrics use of a broker."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """Return the epoch of this process's registration."""

    @property
    def counters(self) -> Counters:
        """Return the running totals."""

    @property
    def dispatcher(self) -> HasServer:
        """Return what serves requests."""

    @property
    def faults(self) -> FaultsOnDemand:
        """Return the injected faults."""

    @property
    def replicas(self) -> HostedReplicas:
        """Return the hosted replicas and their fetchers."""

    @property
    def fetching(self) -> FetchServing:
        """Return what fetches use."""

    @property
    def lag(self) -> LagOnDemand:
        """Return what knows the lag of groups."""

    @property
    def logs(self) -> LogDirectory:
        """Return the log directory."""

    @property
    def throttles(self) -> ReplicationThrottles:
        """Return what bounds replication."""
