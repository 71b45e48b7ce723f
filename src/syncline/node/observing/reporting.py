"""What a broker reports of itself, put together: its journal, its observations, and samples for the journal."""

from collections.abc import Callable, Iterable, Mapping

from syncline.node.basis import Basis
from syncline.node.counting.acknowledgements import AcknowledgementSampler
from syncline.node.lag.fetch_lag import FetchLag
from syncline.node.lag.fetch_sampler import FetchLagSampler
from syncline.node.loop.clockwork import Every
from syncline.node.metadata.topic_creation import TopicCreation
from syncline.node.observing.journal import Journal
from syncline.node.observing.observer import ObservedLeader, Observer
from syncline.node.observing.progress import ProgressSampler
from syncline.node.partitions.partition import Partition


class Reporting:
    """The parts of one broker that say what it does."""

    def __init__(self, basis: Basis, *, leaders: Mapping[int, ObservedLeader], topics: TopicCreation) -> None:
        self._basis = basis
        journal = self.journal = Journal(
            broker_id=basis.broker_id,
            loop=basis.loop,
            cluster=basis.cluster,
            configs=basis.configs,
            partitions=basis.partitions,
            tasks=basis.tasks,
            topics=topics,
            links=basis.links,
            settle=basis.settle,
        )
        self.observer = Observer(
            broker_id=basis.broker_id,
            loop=basis.loop,
            clock=basis.clock,
            cluster=basis.cluster,
            configs=basis.configs,
            known_brokers=basis.known_brokers,
            partitions=basis.partitions,
            leaders=leaders,
            controller=basis.controller,
            note=journal.note,
            stopped_ms=basis.holds.stopped_ms,
        )

    def start(self, every: Every, fetch_lag: FetchLag, active: Callable[[], Iterable[Partition]]) -> None:
        """Observe and take samples, also of what consumers read, unless the journal is off.

        `active` returns the led partitions to which something happened since its last call.
        """
        basis, note = self._basis, self.journal.note
        config = basis.configs.broker
        if not config.journal_enable:
            return
        progress = ProgressSampler(
            broker_id=basis.broker_id,
            clock=basis.clock,
            configs=basis.configs,
            partitions=basis.partitions,
            active=active,
            note=note,
        )
        every("progress", config.journal_progress_interval_ms, progress.sample)
        waits = AcknowledgementSampler(
            broker_id=basis.broker_id,
            clock=basis.clock,
            waits=basis.counters.acknowledgement_waits,
            interval_ms=config.journal_progress_interval_ms,
            note=note,
        )
        every("acknowledgements", config.journal_progress_interval_ms, waits.sample)
        reads = FetchLagSampler(
            broker_id=basis.broker_id,
            clock=basis.clock,
            lag=fetch_lag,
            interval_ms=config.journal_group_lag_interval_ms,
            note=note,
        )
        every("fetch-lag", config.journal_group_lag_interval_ms, reads.sample)
        every("journal", 1_000, self.journal.ensure_topic, is_once=True)
        self.observer.start()

    def close(self) -> None:
        """Observe and report nothing more."""
        self.observer.close()
        self.journal.close()
