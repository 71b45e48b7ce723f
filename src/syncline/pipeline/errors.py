"""The errors that the pipeline raises on purpose: each is a sentence that says what is wrong and what to do."""

from collections.abc import Iterable


class PipelineError(Exception):
    """What a user can understand and fix without reading our code; the message begins with what is wrong."""


class OptionError(PipelineError):
    """An option is missing, misspelled or invalid; the message names it and what to write instead."""


class BrokerError(PipelineError):
    """The brokers are unreachable or refuse; the message names them and what to check."""


class SecurityError(BrokerError):
    """Encryption or authentication failed in a way that a retry does not fix; never retried."""


class OffsetOutOfRangeError(BrokerError):
    """The requested offset is not in the log: it was deleted, or the log was cut or recreated."""


class TopicGoneError(BrokerError):
    """Topics were deleted, or deleted and created again under the same name; the message and `topics` name them."""

    def __init__(self, message: str, topics: Iterable[str] = ()) -> None:
        """Say what happened to these topics."""
        super().__init__(message)
        self.topics = frozenset(topics)


class DataLossError(PipelineError):
    """Records that the query should read are gone; the message names them, and how to continue without what is gone."""


class DecodeError(PipelineError):
    """The bytes are not valid record batches; the message names the broken rule and the offset."""
