"""What a broker process reports about itself when it registers."""

from typing import NamedTuple
from uuid import UUID

from syncline.model.ids import NONE, BrokerId


class BrokerIdentity(NamedTuple):
    """The identity of a broker process, and its listeners."""

    broker_id: BrokerId
    host: str
    port: int
    internal_host: str
    internal_port: int
    rack: str | None
    incarnation_id: UUID
    previous_broker_epoch: int = NONE
    cluster_id: str = ""
