"""The requests that only the controller can answer: any broker forwards them to it.

The broker checks that the body is well formed, because a malformed request closes its connection, which must be the
client's and not the one between brokers. `controller/admin.py` decides, and the reply comes back byte for byte.

What the versions mean:

    CreateTopics (19)              v4 numbers may be -1, v5 the reply has what was made (KIP-525), v7 topic ids
    DeleteTopics (20)              v5 messages, v6 by topic id (KIP-516)
    AlterConfigs (33)              replaces all configurations of each resource
    CreatePartitions (37)          v2 flexible
    ElectLeaders (43)              v1 the kind of election (KIP-460); v0 always means the preferred leader (KIP-183)
    IncrementalAlterConfigs (44)   sets, deletes, appends and subtracts (KIP-339)
    AlterPartitionReassignments (45)  v1 may forbid another replication factor (KIP-455, KIP-860); tagged fields of ours
                                   make a move of it (`wire.reassignments_v1`)
    ListPartitionReassignments (46)   tagged fields of ours name the moves (`wire.list_reassignments_v0`)
    DescribeQuorum (55)            KIP-595, KIP-836, v2 KIP-853; `controller/quorum.py` has what stands for the quorum

To forward another API, add its key here and its server to `controller/admin.py`.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps

KEYS: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
)


# Fewer items than the controller decides on at once.
MANY: Final = 10


class Forwarder(Protocol):
    """The channel to the controller."""

    def forward(self, request: "Request") -> None:
        """Forward the request to the controller."""


class ForwardingBroker(Protocol):
    """What this handler uses of the broker."""

    @property
    def controller(self) -> Forwarder:
        """Return the channel to the controller."""


def handle(broker: ForwardingBroker, request: "Request") -> "Steps":
    """Check the request's form, and forward it."""
    asked = yield from request.decode_in_steps()
    broker.controller.forward(request)
    if _names_many(asked):
        # The controller decides on it in parts; what the client sends next must not be decided between them.
        request.connection.wait_for(request)
    del asked
    yield from request.free_named()


def _names_many(asked: Any) -> bool:
    lists = (getattr(asked, field.name) for field in dataclasses.fields(asked))
    return any(len(each) > MANY for each in lists if isinstance(each, tuple))
