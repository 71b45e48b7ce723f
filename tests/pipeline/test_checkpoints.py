"""Checkpoints of Spark's own Kafka connector: where its query stopped, and what is none of them."""

import json
from pathlib import Path

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.checkpoints import starting_offsets
from syncline.pipeline.errors import OptionError
from syncline.pipeline.source.offsets import Position, as_json

META = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})


def checkpoint(directory: Path, offsets: dict[int, list[str]], done: list[int]) -> Path:
    """Write a checkpoint as Spark does."""
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True)
    for batch, lines in offsets.items():
        (directory / "offsets" / str(batch)).write_text("\n".join(["v1", META, *lines]))
        (directory / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    for batch in done:
        (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return directory


def test_query_goes_on_behind_the_newest_batch_that_was_done(tmp_path: Path) -> None:
    """Batch 11 was planned only; numbers are no texts, so 10 is newer than 9."""
    lines = {batch: ['{"t":{"10":1,"2":' + str(batch) + '},"u":{"0":0}}'] for batch in (9, 10, 11)}
    found = starting_offsets(checkpoint(tmp_path, lines, [9, 10]))

    assert json.loads(found) == {"t": {"2": 10, "10": 1}, "u": {"0": 0}}


def test_source_is_chosen_among_several(tmp_path: Path) -> None:
    """A file source beside it has another place."""
    directory = checkpoint(tmp_path, {0: ['{"logOffset":3}', '{"t":{"0":5}}', "-"]}, [0])

    assert json.loads(starting_offsets(directory, source=1)) == {"t": {"0": 5}}
    for source, words in (
        (0, "is not a Kafka source"),
        (2, "has read nothing yet"),
        (3, "no source 3"),
        (-1, "no source -1"),
    ):
        with pytest.raises(OptionError, match=words):
            starting_offsets(directory, source=source)


@pytest.mark.parametrize("line", ["[]", "{", '{"t":{"a":1}}', '{"t":{"0":-1}}', '{"t":{"0":"1"}}', '{"t":{"0":true}}'])
def test_place_of_another_kind_is_refused(tmp_path: Path, line: str) -> None:
    """None of these is an offset of Kafka's."""
    with pytest.raises(OptionError, match="is not a Kafka source"):
        starting_offsets(checkpoint(tmp_path, {0: [line]}, [0]))


def test_checkpoint_of_our_own_source_is_told_from_others(tmp_path: Path) -> None:
    """Its query goes on with it; the text is what the source writes."""
    own = as_json(Position({TopicPartition("t", 0): 5}, {"t": "u8Vb"}))
    with pytest.raises(OptionError, match="of the format syncline"):
        starting_offsets(checkpoint(tmp_path, {0: [json.dumps(own)]}, [0]))


def test_directory_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    """One that is not there, one without a batch, one with a damaged or newer file."""
    with pytest.raises(OptionError, match="is not a checkpoint"):
        starting_offsets(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="no completed batch"):
        starting_offsets(checkpoint(tmp_path / "none", {0: ["{}"]}, []))
    with pytest.raises(OptionError, match="cannot be read"):
        starting_offsets(checkpoint(tmp_path / "lost", {}, [0]))
    directory = checkpoint(tmp_path / "newer", {0: ["{}"]}, [0])
    (directory / "offsets" / "0").write_text("v2\n{}\n{}")
    with pytest.raises(OptionError, match="version v2"):
        starting_offsets(directory)
