"""Waiting produces: C16."""

from syncline.core.replication.acknowledgement import produce_outcome
from syncline.model.errors import ErrorCode


def test_c16_each_partition_is_decided_by_itself() -> None:
    """Waiting, committed, committed by too few."""
    assert produce_outcome(11, 10, 2, 2) is None
    assert produce_outcome(11, 11, 2, 2) is ErrorCode.NONE
    assert produce_outcome(11, 11, 1, 2) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
