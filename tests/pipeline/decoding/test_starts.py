"""The quick ways to find records find those of the plain way, and refuse what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.pipeline.decoding import starts
from syncline.pipeline.decoding.headers import Batch, Part
from syncline.pipeline.errors import DecodeError

_PART = Part("flights", 0, 0, 0, 0, 2**62)

# Runs of records of one size, as (size, count); sizes on both sides of a length of one, two and three bytes.
_size = st.one_of(st.integers(6, 80), st.sampled_from([63, 64, 8_191, 8_192]))
_batch = st.lists(st.tuples(_size, st.integers(1, 60)), max_size=4)


def _varint(number: int) -> bytes:
    value, written = number << 1, bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _batches(sizes: list[list[int]]) -> tuple[bytes, list[Batch], list[int], list[int]]:
    """Return batches of records of these sizes in one buffer, and where each record starts and ends."""
    buffer, batches, firsts, ends = bytearray(b"head"), [], [], []
    for number, content in enumerate(sizes):
        start = len(buffer)
        for size in content:
            buffer += _varint(size)
            firsts.append(len(buffer))
            # Bytes that would pass for lengths, so that a wrong place would not be noticed by luck.
            buffer += bytes([size * 2 & 0xFE]) * size
            ends.append(len(buffer))
        batches.append(Batch(_PART, number, number, 0, 0, 0, 0, -1, len(content), 0, start, len(buffer)))
        buffer += b"gap"
    return bytes(buffer), batches, firsts, ends


def _bounds(buffer: bytes, batches: list[Batch]) -> tuple[list[int], list[int]]:
    found = starts.record_bounds(buffer, np.frombuffer(buffer, np.uint8), batches)
    return found[0].tolist(), found[1].tolist()


@pytest.fixture(params=["one after the other", "in step"])
def way(request, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways with limits so low that a few records are enough to take them."""
    monkeypatch.setattr(starts, "_RUN_MIN", 3)
    monkeypatch.setattr(starts, "_RUN_MAX", 40)
    monkeypatch.setattr(starts, "_WALK_MIN", 2)
    monkeypatch.setattr(starts, "_IN_STEP_MIN", 2 if request.param == "in step" else 10**9)
    monkeypatch.setattr(starts, "_IN_STEP_REST", 2)


@settings(deadline=None, max_examples=150)
@given(content=st.lists(_batch, min_size=1, max_size=6))
@pytest.mark.usefixtures("way")
def test_quick_ways_find_every_record(content: list[list[tuple[int, int]]]) -> None:
    """Guards: the fast path is equal to the plain one: runs, varied records, batches of any number of them."""
    sizes = [[size for size, count in runs for _ in range(count)] for runs in content]
    buffer, batches, firsts, ends = _batches(sizes)

    assert _bounds(buffer, batches) == (firsts, ends)


@settings(deadline=None, max_examples=150)
@given(content=st.lists(_batch, min_size=1, max_size=4), data=st.data())
@pytest.mark.usefixtures("way")
def test_quick_ways_refuse_records_that_leave_their_batch(content, data: st.DataObject) -> None:
    """Whatever length is wrong, the result is places within the batches or one error."""
    sizes = [[size for size, count in runs for _ in range(count)] for runs in content]
    buffer, batches, _, _ = _batches(sizes)
    broken = bytearray(buffer)
    for _ in range(data.draw(st.integers(1, 5))):
        broken[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))

    try:
        found, ends = _bounds(bytes(broken), batches)
    except DecodeError:
        return
    assert len(found) == len(ends) == sum(batch.record_count for batch in batches)
    assert max(ends, default=0) <= len(buffer)


def test_batches_in_step_are_named_when_they_end_inside_a_record() -> None:
    """With as many batches as it takes, the one that is cut short is named by its offset."""
    buffer, batches, _, _ = _batches([[20, 30, 40]] * 200)
    batches[77] = batches[77]._replace(end=batches[77].end - 1)

    with pytest.raises(DecodeError, match="batch at offset 77 ends inside a record"):
        _bounds(buffer, batches)
