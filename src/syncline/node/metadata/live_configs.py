"""Live configurations: those of this broker and of topics, resolved from all layers.

A broker's configuration is resolved again when the metadata changes one of its layers (`resolve_again`), a topic's on
request. Partitions with equal settings share one object: there are thousands of them.
"""

import logging
from collections.abc import Mapping

from syncline.core.fetching.read_replicas import RACK_AWARE_SELECTOR
from syncline.core.replication.lag_policy import lag_policy
from syncline.core.replication.leader import PartitionSettings
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.model.broker_config import BROKER_CONFIGS, BrokerConfig
from syncline.model.config_types import ConfigError
from syncline.model.ids import BrokerId
from syncline.model.kept_configs import THROTTLE_RATES
from syncline.model.metadata import Topic
from syncline.model.topic_config import TopicConfig
from syncline.node.metadata.cluster_view import ClusterView

log = logging.getLogger("syncline.node")


def slow_read_rules(config: BrokerConfig) -> SlowReadRules | None:
    """Return the rules that a configuration sets; None if the feature is off."""
    if not config.follower_fetch_pending_reads_insync_enable:
        return None
    cap_ms = config.follower_fetch_pending_insync_max_ms
    return SlowReadRules(
        # Never less than a lag window, which the lag rule grants anyway.
        cap_ms=None if cap_ms < 0 else max(cap_ms, config.replica_lag_time_max_ms),
        relinquishes=config.leader_relinquish_enable,
        process_time_max_ms=config.follower_fetch_process_time_max_ms,
        tenure_min_ms=config.leader_relinquish_min_tenure_ms,
    )


class LiveConfigs:
    """The configurations in effect at one broker."""

    __slots__ = (
        "_broker_id",
        "_cluster",
        "_layers",
        "_of_topic",
        "_resolved",
        "_settings",
        "_used",
        "broker",
        "slow_read_rules",
        "static",
    )

    def __init__(
        self, broker_id: BrokerId, static: Mapping[str, str], broker: BrokerConfig, cluster: ClusterView
    ) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        # The configuration this broker was started with; other layers override it.
        self.static = static
        # This broker's own configuration as of now.
        self.broker = broker
        # None while KIP-501 is off.
        self.slow_read_rules = slow_read_rules(broker)
        self._settings: dict[tuple[str, int, int, int, bool, SlowReadRules | None], PartitionSettings] = {}
        # What the metadata has for all brokers and for this one, and what `broker` was resolved from, besides `static`.
        self._layers: list[dict[str, str]] | None = None
        self._used: list[dict[str, str]] = [{}, {}]
        # The last texts resolved: a list in them may be long, and several parts of a broker read them after a change.
        self._resolved: tuple[Mapping[str, str], BrokerConfig, TopicConfig] | None = None
        # The last topic resolved, and what it was resolved from: requests name partitions of one topic in succession.
        self._of_topic: tuple[str, object, BrokerConfig, TopicConfig] | None = None

    def resolve_again(self) -> bool:
        """Resolve this broker's configuration from the current image; return whether anything of it may differ.

        Values that this broker cannot use are logged as an error, and it keeps what it has instead of each. The
        controller, which compares with its own start only, may accept them, and an older Syncline may have done so.
        """
        image = self._cluster.image
        # Rates of throttles are set for brokers, too. They change often, and have no effect but on throttles.
        layers = [
            {name: text for name, text in values.items() if name not in THROTTLE_RATES}
            for values in (image.cluster_configs(), image.broker_configs(self._broker_id))
        ]
        if layers == self._layers:
            return False
        self._layers = layers
        before = self.broker
        try:
            self.broker = BrokerConfig.resolve(self.static, *layers)
            self._used = layers
        except ConfigError:
            # A broker that ended here would end at each start, and nobody could take the value back.
            self._use_singly(layers)
        self.slow_read_rules = slow_read_rules(self.broker)
        return self.broker is not before

    def _use_singly(self, layers: list[dict[str, str]]) -> None:
        """Change one value after the other: one that cannot be used must not hide the others, as after a start."""
        for at, wanted in enumerate(layers):
            for name in {**self._used[at], **wanted}:
                if name not in BROKER_CONFIGS or self._used[at].get(name) == wanted.get(name):
                    continue
                changed = {key: text for key, text in self._used[at].items() if key != name}
                if name in wanted:
                    changed[name] = wanted[name]
                tried = [*self._used[:at], changed, *self._used[at + 1 :]]
                try:
                    self.broker = BrokerConfig.resolve(self.static, *tried)
                    self._used = tried
                except ConfigError as error:
                    log.error(
                        "%s is set to a value that this broker cannot use, so it keeps its present value: %s",
                        name,
                        error,
                    )

    def topic(self, name: str) -> TopicConfig:
        """Return the configuration of a topic."""
        texts = self._cluster.image.topic_configs(name)
        known = self._resolved
        if known is None or known[0] is not texts or known[1] is not self.broker:
            known = self._resolved = (texts, self.broker, TopicConfig.resolve(texts, self.broker))
        return known[2]

    def topic_of(self, topic: Topic) -> TopicConfig:
        """Return the configuration of a topic, the same object for all of its partitions."""
        known, image = self._of_topic, self._cluster.image
        if known is None or known[0] != topic.name or known[1] is not image.configs or known[2] is not self.broker:
            known = self._of_topic = (topic.name, image.configs, self.broker, self.topic(topic.name))
        return known[3]

    def partition_settings(self, config: TopicConfig) -> PartitionSettings:
        """Return the settings for leaders of a topic with this configuration; equal settings are one object."""
        own = self.broker
        key = (
            own.replica_lag_mode,
            own.replica_lag_time_max_ms,
            own.replica_lag_max_messages,
            config.min_insync_replicas,
            own.high_watermark_min_isr_gate,
            self.slow_read_rules,
        )
        found = self._settings.get(key)
        if found is None:
            found = self._settings[key] = PartitionSettings(
                lag=lag_policy(*key[:3]),
                min_insync_replicas=config.min_insync_replicas,
                high_watermark_min_isr_gate=own.high_watermark_min_isr_gate,
                slow_reads=self.slow_read_rules,
            )
        return found

    @property
    def selects_near_replicas(self) -> bool:
        """Whether consumers are sent to replicas in their own rack (KIP-392)."""
        return self.broker.replica_selector_class == RACK_AWARE_SELECTOR
