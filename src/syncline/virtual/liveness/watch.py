"""The watch over one run: a prober, a record of the store, and in the end the verdict by the rule.

Times are in ns of virtual time.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.metadata import MetadataImage
from syncline.virtual.cluster import CONFIG, VirtualCluster
from syncline.virtual.liveness.episodes import Episode
from syncline.virtual.liveness.prober import Prober
from syncline.virtual.liveness.rule import Terms, duties, violations
from syncline.virtual.liveness.store_record import StoreRecord

# So many of a run's partitions are probed: each costs as much as a producer does.
PROBED_MAX: Final = 3


class LivenessWatch:
    """Watches whether partitions accept records while faults last."""

    def __init__(self, cluster: VirtualCluster, keys: Sequence[TopicPartition]) -> None:
        self._cluster = cluster
        self._keys = tuple(keys[:PROBED_MAX])
        self._record = StoreRecord(lambda: cluster.loop.now_ns)
        self._prober: Prober | None = None
        self._check_commit = cluster.store.on_commit
        cluster.store.on_commit = self._committed
        cluster.store.on_lease = self._lease_moved

    def begin(self) -> None:
        """Begin to probe; the partitions exist."""
        self._prober = Prober(self._cluster, self._keys)

    def end(self, episodes: Sequence[Episode]) -> tuple[list[str], Counter[str]]:
        """Stop probing; return what was accepted too late, and how many duties there were, by the faults that last."""
        assert self._prober is not None, "a watch ends before it began"
        self._prober.stop()
        config = {**CONFIG, **self._cluster.settings.config}
        terms = Terms(
            session_timeout_ms=int(config["broker.session.timeout.ms"]),
            lag_time_max_ms=int(config["replica.lag.time.max.ms"]),
            isr_size_min=int(config["min.insync.replicas"]),
        )
        hosts = {broker_id: host.name for broker_id, host in self._cluster.hosts.items()}
        found = duties(episodes, self._record, self._keys, hosts, terms, self._cluster.loop.now_ns)
        judged = Counter(f"L9 {'+'.join(sorted({each.kind for each in duty.faults})) or 'no fault'}" for duty in found)
        return violations(found, self._prober.probes), judged

    def _committed(self, before: MetadataImage, after: MetadataImage) -> None:
        if self._check_commit is not None:
            self._check_commit(before, after)
        self._record.committed(before, after)

    def _lease_moved(self, holder: BrokerId | None) -> None:
        self._record.lease_moved(holder)
