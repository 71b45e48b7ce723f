"""Checks of manual replica assignments. Source: Kafka's ReplicationControlManager, KIP-195."""

from collections.abc import Sequence

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage


def validate_assignment(image: MetadataImage, replicas: Sequence[BrokerId], replication_factor: int | None) -> None:
    """Raise `RequestError` unless `replicas` are distinct registered brokers, as many as `replication_factor`."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous: BrokerId | None = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise _invalid(f"The manual partition assignment includes the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is"
            f" not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
