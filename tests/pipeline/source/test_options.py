"""Options mean what they mean to Spark's Kafka connector, and a mistake names the option and the way out."""

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.errors import OptionError
from syncline.pipeline.source.options import SourceOptions, TriggerLimits
from syncline.pipeline.source.places import EveryPartition, PerPartition

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

    assert options.topics.pattern is not None
    assert options.topics.pattern.text == "f.*"
    assert options.trigger.offsets_max == 7


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
        pytest.param({"startingOffsets": '{"t": {"0": -3}}'}, "needs a valid number", id="offset below -2"),
        pytest.param({"startingOffsets": '{"t": [0]}'}, "topics with partitions", id="offsets as list"),
        pytest.param({"endingOffsets": "earliest"}, "would read nothing", id="to earliest"),
        pytest.param({"startingTimestamp": "2013-01-01"}, "Unix milliseconds", id="time as text"),
        pytest.param({"failOnDataLoss": "yes"}, "write true or false", id="flag"),
        pytest.param({"includeGaps": "some"}, "write true, false or all", id="gaps"),
        pytest.param({"includeGaps": "all", "failOnDataLoss": "true"}, "remove one of the two", id="gaps and failing"),
        pytest.param({"minPartitions": "0"}, "whole number above 0", id="count"),
        pytest.param({"kafka.group.id": "g", "kafka.auto.offset.reset": "x"}, "use startingOffsets", id="forbidden"),
        pytest.param({"kafka.security.protocol": "TLS"}, "write PLAINTEXT, SSL", id="protocol"),
        pytest.param({"kafka.sasl.mechanism": "PLAIN"}, "no effect with .* PLAINTEXT", id="login without protocol"),
        pytest.param({"kafka.isolation.level": "high"}, "read_committed", id="isolation"),
        pytest.param({"bootstrap": "b:9092"}, "name different brokers, .*remove one", id="two lists of brokers"),
        pytest.param({"kafka.bootstrap.servers": "a:²"}, "write host:port", id="port in superscript"),
        pytest.param({"startingOffsets": " "}, "earliest, latest or", id="blank offsets"),
        pytest.param({"startingOffsets": '{"t": {"0": 1e3}}'}, "topics with partitions", id="offset with a point"),
        pytest.param({"startingOffsets": '{"t": {"+1": 3}}'}, "topics with partitions", id="partition with a sign"),
        pytest.param({"endingOffsets": '{"t": {"0": 99999999999999999999}}'}, "topics with part", id="huge offset"),
        pytest.param({"minPartitions": "99999999999999999999"}, "whole number above 0", id="huge count"),
        pytest.param({"minPartitions": " "}, "whole number above 0", id="blank count"),
        pytest.param({"fetchBytes": "3000000000"}, "at most 2147483647", id="bytes beyond the protocol"),
        pytest.param({"includeHeaders": ""}, "includeHeaders cannot be '': write true", id="blank flag"),
        pytest.param({"fetchOffset.numRetries": "-1"}, "whole number from 0 on", id="negative retries"),
        pytest.param({"maxTriggerDelay": "soon"}, "with its unit, such as 500ms", id="delay"),
        pytest.param(
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "no batch can satisfy both", id="above itself"
        ),
        pytest.param({"commitOffsetsToGroup": "true"}, "name it in the option kafka.group.id", id="no group"),
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
    for assigned in ('{"t": ["x"]}', '{"t": [-1]}', '{"t": "01"}', '{"t": null}', '{"t": [2147483648]}'):
        with pytest.raises(OptionError, match="lists of partition numbers"):
            SourceOptions.parse({**brokers, "assign": assigned}, streaming=False)


def test_options_refuse_an_end_for_a_stream() -> None:
    """A stream has no end; the message says how to stop at one."""
    with pytest.raises(OptionError, match="availableNow"):
        SourceOptions.parse({**MINIMUM, "endingOffsets": "latest"}, streaming=True)


def test_options_of_encryption_and_authentication_reach_the_client_and_show_nothing() -> None:
    """In any case of their names; what a reader is made of may be printed."""
    given = {
        "KAFKA.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "hush-hush",
        "kafka.ssl.keystore.location": "k.p12",
        "kafka.ssl.keystore.password": "hush-hush",
    }

    options = SourceOptions.parse({**MINIMUM, **given}, streaming=True)

    assert options.client.security.protocol == "SASL_SSL"
    assert options.client.security.login is not None
    assert options.client.security.login.username == "alice"
    assert "hush" not in repr(options)
    assert "[hidden]" in repr(options)


def test_options_accept_the_same_brokers_twice() -> None:
    """Guards: two bootstrap forms override each other silently. The same brokers in another order are no mistake."""
    given = {"kafka.bootstrap.servers": "a:1,b:2", "bootstrap": " b:2, a:1", "subscribe": "flights"}

    assert SourceOptions.parse(given, streaming=False).client.bootstrap == (("a", 1), ("b", 2))


def test_options_bound_a_trigger_by_offsets_bytes_and_time() -> None:
    """Durations have the connector's units; a delay of its own default waits a quarter of an hour."""
    given = {**MINIMUM, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "9", "maxBytesPerTrigger": "1000"}

    options = SourceOptions.parse({**given, "maxTriggerDelay": "90s"}, streaming=True)

    assert options.trigger == TriggerLimits(offsets_max=9, offsets_min=5, delay_ms_max=90_000, bytes_max=1000)
    assert SourceOptions.parse(given, streaming=True).trigger.delay_ms_max == 15 * 60_000
