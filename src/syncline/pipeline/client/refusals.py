"""What error codes mean to this client: which a retry with fresh metadata may resolve, and which are final."""

from collections.abc import Mapping
from typing import Final

from syncline.model.errors import ErrorCode
from syncline.pipeline.errors import BrokerError, SecurityError

_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        # Of writing, and of coordinators:
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
# The rights that a user needs, by the error code that reports them missing.
_RIGHTS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Describe and Read (to write: Write) on the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Read on the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the operation on the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional id",
}


class DeniedError(SecurityError):
    """The broker denies a known user; the message does not say whom and where."""


class RetriableError(Exception):
    """A failure that a retry with fresh metadata may resolve; it never leaves the client."""


class HungUpError(RetriableError):
    """A broker accepted the connection and closed it on a request, as it does when it does not serve that version."""


class OtherTopicError(RetriableError):
    """A broker knows no such topic, or another one of that name; its metadata may be late, but not for long.

    `topics` holds a sentence for each of them.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        """Join the sentences of all topics."""
        super().__init__("; ".join(topics.values()))
        self.topics = dict(topics)


def is_fine(code: int, subject: str) -> bool:
    """Return True for no error, False for a transient one; raise `BrokerError` for any other.

    That is `DeniedError` where a right is missing.
    """
    if code == ErrorCode.NONE:
        return True
    if code in _PASSING:
        return False
    check_rights(code, subject)
    raise BrokerError(f"the broker refuses the {subject}: {name_of(code)}")


def check_rights(code: int, subject: str) -> None:
    """Raise `DeniedError` for a code that says that a right is missing."""
    for denial, right in _RIGHTS.items():
        if code == denial:
            raise DeniedError(f"the broker denies the {subject} ({denial.name}): an ACL must allow {right}")


def name_of(code: int) -> str:
    """Return the code's name in the protocol, or its number."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"
