"""The suite itself: what it tells apart, what it takes for equal, and that its batches are what they say."""

from typing import Any

import pytest

from tests.conformance import batches, compare
from tests.conformance.batches import GZIP, Record, batch
from tests.conformance.divergences import Divergence
from tests.conformance.kio_tree import decode_response, encode_request
from tests.conformance.normalise import UNQUOTED_TEXT, Normaliser
from tests.conformance.player import java_hash

BROKERS = [(1, "127.0.0.1", 9092), (2, "127.0.0.1", 9093), (5, "127.0.0.1", 9094)]
PREFIX = "c-x-"


def _step(reply: Any) -> list[dict[str, Any]]:
    return [{"request": {}, "reply": reply}]


def _normal(tree: dict[str, Any]) -> Any:
    return Normaliser(PREFIX, BROKERS).answer(tree, own_rows=False)


@pytest.mark.parametrize(
    ("kafka", "syncline", "paths"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal"),
        pytest.param({"a": 1}, {"a": 2}, ["reply.a"], id="a number"),
        pytest.param({"a": False}, {"a": 0}, ["reply.a"], id="a type"),
        pytest.param({"a": None}, {"a": ""}, ["reply.a"], id="null and empty"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, ["reply.a.1"], id="a longer list"),
        pytest.param({"a": 1}, {}, ["reply.a"], id="a missing field"),
        pytest.param("closed", {"a": 1}, ["reply"], id="an outcome"),
        pytest.param({"a": UNQUOTED_TEXT}, {"a": "other words"}, [], id="words that are not quoted"),
        pytest.param({"a": UNQUOTED_TEXT}, {"a": None}, ["reply.a"], id="no words at all"),
    ],
)
def test_comparison_names_every_place_that_differs(kafka: Any, syncline: Any, paths: list[str]) -> None:
    """Trees are compared to the leaves; null, empty, absent and zero are four things."""
    assert [each.path for each in compare.differences("s", _step(kafka), _step(syncline))] == paths


def test_comparison_sets_intended_differences_aside_and_remembers_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """A divergence covers its sequence, step, path and Kafka's value, and nothing else."""
    line = Divergence("s.*", "reply.a*", "meant so", step=0, kafka=1)
    monkeypatch.setattr(compare, "DIVERGENCES", (line,))

    found = compare.differences("s.v1", _step({"a": 1, "b": 1}), _step({"a": 2, "b": 2}))
    left, used = compare.unexplained(found)

    assert ([each.path for each in left], used) == (["reply.b"], {line})


def test_normaliser_tells_brokers_by_rank_and_topics_by_short_name() -> None:
    """Ids, ports and prefixes of a run do not reach a recording."""
    tree = {"brokers": [{"node_id": 5, "host": "127.0.0.1", "port": 9094}], "topics": [{"name": "c-x-t"}]}

    assert _normal(tree) == {
        "brokers": [{"node_id": "broker 2", "host": "host of a broker", "port": "port of broker 2"}],
        "topics": [{"name": "t"}],
    }


def test_normaliser_numbers_members_alike_whatever_their_order() -> None:
    """A list of members is sorted by what they said before their ids are numbered."""
    first = {"member_id": "m-00000000-0000-0000-0000-00000000000a", "metadata": b"a"}
    second = {"member_id": "m-00000000-0000-0000-0000-00000000000b", "metadata": b"b"}

    assert _normal({"members": [first, second]}) == _normal({"members": [second, first]})


def test_normaliser_keeps_the_order_of_fetched_partitions() -> None:
    """Fetch answers in the order of the request; that is compared."""
    rows = [{"partition_index": index} for index in (2, 0, 1)]

    assert _normal({"responses": [{"topic": "c-x-t", "partitions": rows}]})["responses"][0]["partitions"] == rows


@pytest.mark.parametrize("codec", range(5))
def test_batches_are_read_back_as_they_were_built(codec: int) -> None:
    """A built batch has a good checksum and the header that it was given."""
    data = batches.encode(batch("a", Record(b"b", None, timestamp_delta=3), codec=codec, producer_id=7))

    [row] = batches.decode(data)["batches"]

    assert (row["crc"], row["attributes"], row["count"], row["producer_id"]) == ("good", codec, 2, 7)
    assert row["max_timestamp"] == batches.T0 + 3


def test_batches_can_be_broken_in_exactly_one_way() -> None:
    """A bad checksum is nothing but that."""
    good, bad = batch("a", codec=GZIP), batch("a", codec=GZIP, bad_checksum=True)

    assert sum(left != right for left, right in zip(batches.encode(good), batches.encode(bad), strict=True)) == 1


@pytest.mark.parametrize("total_bytes", [94, 300, 301, 1_048_588])
def test_sized_batches_have_their_size(total_bytes: int) -> None:
    """Limits are probed to the byte."""
    assert len(batches.encode(batches.sized(total_bytes))) == total_bytes


def test_requests_leave_out_what_a_version_does_not_have() -> None:
    """A body may carry fields of other versions, but no invented ones."""
    assert encode_request(3, 1, {"topics": [], "allow_auto_topic_creation": True}) == b"\0\0\0\0"
    with pytest.raises(AssertionError, match="no field"):
        encode_request(3, 1, {"tropics": []})


def test_answers_with_bytes_behind_them_are_refused() -> None:
    """An answer that is longer than it says is a mistake of the broker."""
    with pytest.raises(ValueError, match="1 bytes behind"):
        decode_response(12, 0, b"\0\0\0")


def test_java_hash_is_javas() -> None:
    """The hash of a name decides on its coordinator; `polygenelubricants` is the smallest number there is."""
    assert (java_hash("hello"), java_hash("polygenelubricants")) == (99162322, -(2**31))
