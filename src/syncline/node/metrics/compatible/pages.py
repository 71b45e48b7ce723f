"""The pages of other exporters that a broker serves, of the whole cluster.

Every broker can serve them, each for itself: dashboards choose one instance, and any broker will do.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from syncline.node.lag.on_demand import LagOnDemand
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.metrics.compatible import kafka_exporter, kafka_lag_exporter, kminion
from syncline.node.metrics.compatible.kafka_lag_exporter import KafkaLagExporter
from syncline.node.metrics.text import Page, collected
from syncline.node.views.values import HasClock, HasConfig, HasImage

KAFKA_EXPORTER: Final = "kafka_exporter"
KMINION: Final = "kminion"
KAFKA_LAG_EXPORTER: Final = "kafka-lag-exporter"


class Host(HasClock, HasConfig, HasImage, Protocol):
    """What these pages use of a broker."""

    @property
    def configs(self) -> LiveConfigs:
        """Return the configurations in effect."""

    @property
    def lag(self) -> LagOnDemand:
        """Return what knows the groups."""


class CompatiblePages:
    """Makes the pages for one broker."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._lag_exporter = KafkaLagExporter()
        # The page of the last poll of kafka-lag-exporter, and when that was.
        self._polled: tuple[int, Sequence[bytes]] | None = None

    async def make(self, name: str) -> Sequence[bytes]:
        """Return the page of an exporter, in pieces."""
        if name == KAFKA_LAG_EXPORTER:
            return await self._last_poll()
        broker = self._broker
        if name == KMINION:
            page = Page(kminion.FAMILIES)
            state = await broker.lag.in_cluster.gather(has_sizes=True)
            await kminion.write(page, broker.image, state, self._cleanup_policy)
        else:
            assert name == KAFKA_EXPORTER, f"there is no exporter {name}"
            page = Page(kafka_exporter.FAMILIES)
            state = await broker.lag.in_cluster.gather()
            await kafka_exporter.write(page, broker.image, state)
        return await collected(page)

    async def _last_poll(self) -> Sequence[bytes]:
        """Return the page of the last poll, and poll before if that was an interval ago."""
        broker = self._broker
        now_ms = broker.clock.mono_ms()
        if self._polled is not None and now_ms - self._polled[0] < broker.config.lag_refresh_interval_ms:
            return self._polled[1]
        page = Page(kafka_lag_exporter.FAMILIES)
        state = await broker.lag.in_cluster.gather()
        await self._lag_exporter.write(page, broker.image, state, broker.clock.mono_ms() - now_ms)
        pieces = await collected(page)
        self._polled = (now_ms, pieces)
        return pieces

    def _cleanup_policy(self, topic: str) -> str:
        return ",".join(self._broker.configs.topic(topic).cleanup_policy)
