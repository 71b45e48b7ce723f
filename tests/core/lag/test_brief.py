"""The seven numbers of a scrape against the rows that people read."""

from hypothesis import given
from hypothesis import strategies as st

from syncline.core.lag.brief import brief
from syncline.core.lag.rows import Speeds, first_unread, group_row
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import GroupStatus, PartitionVerdict, StatusRule
from tests.core.lag.positions import ends, place

FINE = PartitionVerdict(GroupStatus.OK, StatusRule.LAG_FELL, 1.0, 0, {})


@given(
    committed=st.integers(0, 1_200),
    log_start=st.integers(0, 1_000),
    watermark=st.integers(900, 1_000),
    has_place=st.booleans(),
    has_append_time=st.booleans(),
    has_event_time=st.booleans(),
)
def test_brief_row_has_the_numbers_of_the_whole_one(
    committed: int, log_start: int, watermark: int, has_place: bool, has_append_time: bool, has_event_time: bool
) -> None:
    """Two rules for one number would part at the next change of one."""
    watermark = max(watermark, log_start)
    log = ends(log_start=log_start)._replace(high_watermark=Offset(watermark), last_stable=Offset(watermark))
    offset = Offset(committed)
    at = place(first_unread(offset, log)) if has_place and first_unread(offset, log) < log.log_end else None
    if at is not None and not has_append_time:
        at = at._replace(append_ms=-1)
    if at is not None and not has_event_time:
        at = at._replace(event_ms=-1)
    whole = group_row(TopicPartition("t", 0), offset, log, at, FINE, Speeds(None, None))

    assert brief(offset, log, at)._asdict() == {
        name: getattr(whole, name)
        for name in ("lag_hw", "lag_lso", "lag_leo", "lost", "lag_bytes", "staleness_ms", "event_lag_ms")
    }
