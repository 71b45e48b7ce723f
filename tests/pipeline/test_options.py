"""Options mean what they mean to Spark's Kafka connector, and a mistake names the option and the way out."""

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.broker_client import EARLIEST, LATEST
from syncline.pipeline.options import EveryPartition, OptionError, PerPartition, SourceOptions

MINIMUM = {"kafka.bootstrap.servers": "a:9092, [::1]:9093", "subscribe": "flights"}


def test_options_have_the_defaults_of_a_batch_query() -> None:
    """A batch reads everything there is."""
    options = SourceOptions.parse(MINIMUM, streaming=False)

    assert options.client.bootstrap == (("a", 9092), ("::1", 9093))
    assert options.topics.names == ("flights",)
    assert options.starting == EveryPartition(EARLIEST)
    assert options.ending == EveryPartition(LATEST)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.client.read_committed


def test_options_begin_a_stream_at_the_latest_offset() -> None:
    """A stream reads what comes."""
    assert SourceOptions.parse(MINIMUM, streaming=True).starting == EveryPartition(LATEST)


def test_options_are_known_in_any_case() -> None:
    """Spark lowers the case of names on some of its ways."""
    given = {"KAFKA.BOOTSTRAP.SERVERS": "a:1", "subscribepattern": "f.*", "maxoffsetspertrigger": "7"}

    options = SourceOptions.parse(given, streaming=True)

    assert options.topics.pattern == "f.*"
    assert options.offsets_per_trigger_max == 7


def test_options_prefer_a_timestamp_to_offsets() -> None:
    """One timestamp for all goes before timestamps by partition, and those before offsets."""
    by_partition = {**MINIMUM, "startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"flights": {"0": 5}}'}
    for_all = {**by_partition, "startingTimestamp": "7"}

    place = TopicPartition("flights", 0)
    assert SourceOptions.parse(by_partition, streaming=False).starting == PerPartition({place: 5}, by_time=True)
    assert SourceOptions.parse(for_all, streaming=False).starting == EveryPartition(7, by_time=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"kafka.bootstrap.servers": ""}, "bootstrap.servers is missing", id="no brokers"),
        pytest.param({"kafka.bootstrap.servers": "a"}, "write host:port", id="no port"),
        pytest.param({"subscribe": " , "}, "write one or more topic names", id="no topic"),
        pytest.param({"assign": '{"t": [0]}'}, "exactly one of .*subscribe and assign", id="two kinds of topics"),
        pytest.param({"subscribePatern": "x"}, "did you mean subscribePattern", id="misspelled"),
        pytest.param({"startingOffsets": "soon"}, "earliest, latest or", id="offsets are no word"),
        pytest.param({"startingOffsets": "latest"}, "would read nothing", id="batch from latest"),
        pytest.param({"startingOffsets": '{"t": {"0": -1}}'}, "would read nothing", id="batch from latest in JSON"),
        pytest.param({"startingOffsets": '{"t": {"0": -3}}'}, "makes sense", id="offset below -2"),
        pytest.param({"startingOffsets": '{"t": [0]}'}, "topics with partitions", id="offsets as list"),
        pytest.param({"endingOffsets": "earliest"}, "would read nothing", id="to earliest"),
        pytest.param({"startingTimestamp": "2013-01-01"}, "Unix milliseconds", id="time as text"),
        pytest.param({"failOnDataLoss": "yes"}, "write true or false", id="flag"),
        pytest.param({"minPartitions": "0"}, "whole number above 0", id="count"),
        pytest.param({"kafka.group.id": "g", "kafka.auto.offset.reset": "x"}, "use startingOffsets", id="forbidden"),
        pytest.param({"kafka.security.protocol": "SSL"}, "PLAINTEXT", id="encrypted"),
        pytest.param({"kafka.sasl.mechanism": "PLAIN"}, "PLAINTEXT", id="authenticated"),
        pytest.param({"kafka.isolation.level": "high"}, "read_committed", id="isolation"),
        pytest.param({"startingOffsetsByTimestampStrategy": "skip"}, "error or latest", id="strategy"),
    ],
)
def test_options_are_refused_with_advice(given: dict[str, str], message: str) -> None:
    """Each message names the option and says what to write."""
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse({**MINIMUM, **given}, streaming=False)


def test_options_refuse_a_pattern_or_assignment_that_makes_no_sense() -> None:
    """Broken patterns and lists are found before any broker is asked."""
    brokers = {"bootstrap": "a:1"}
    with pytest.raises(OptionError, match="regular expression"):
        SourceOptions.parse({**brokers, "subscribePattern": "("}, streaming=False)
    with pytest.raises(OptionError, match="lists of partition numbers"):
        SourceOptions.parse({**brokers, "assign": '{"t": ["x"]}'}, streaming=False)


def test_options_refuse_an_end_for_a_stream() -> None:
    """A stream has no end; the message says how to stop at one."""
    with pytest.raises(OptionError, match="availableNow"):
        SourceOptions.parse({**MINIMUM, "endingOffsets": "latest"}, streaming=True)
