"""The cluster view: the metadata that this broker acts on, and what follows from it alone.

Invariant: the image advances by whole versions. Only `hosting.image_application` replaces it.
"""

from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage
from syncline.wire.endpoints import NodeEndpoint


class ClusterView:
    """What one broker knows of the cluster."""

    __slots__ = ("image",)

    def __init__(self) -> None:
        self.image = MetadataImage()

    def __repr__(self) -> str:
        return f"<cluster at version {self.image.version}, controller {self.image.controller_id}>"

    def replace(self, image: MetadataImage) -> None:
        """Replace the image; its version must not be older."""
        assert image.version >= self.image.version, (
            f"metadata went back from version {self.image.version} to {image.version}"
        )
        self.image = image

    def active_count(self) -> int:
        """Return how many brokers are unfenced and not shutting down."""
        return sum(1 for record in self.image.brokers.values() if record.active)

    def racks_of_unfenced(self) -> dict[BrokerId, str | None]:
        """Return the rack of every unfenced broker."""
        return {each.broker_id: each.rack for each in self.image.brokers.values() if not each.fenced}

    def leader_hint(
        self, topic: str, index: int, code: ErrorCode, /
    ) -> tuple[tuple[int, int] | None, NodeEndpoint | None]:
        """Return (leader id, leader epoch) and the leader's endpoint for a client at the wrong broker (KIP-951)."""
        if code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return None, None
        record = self.image.partition(topic, index)
        if record is None:
            return None, None
        target = self.image.brokers.get(record.leader)
        endpoint = None
        if target is not None:
            endpoint = NodeEndpoint(target.broker_id, target.host, target.port, target.rack)
        return (record.leader, record.leader_epoch), endpoint
