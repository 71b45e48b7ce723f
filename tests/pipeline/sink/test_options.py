"""Options of the sink are checked before anything is written, and each mistake is named with what to write instead."""

import logging

import pytest

from syncline.pipeline.errors import OptionError
from syncline.pipeline.sink import options
from syncline.pipeline.sink.configs import REFUSED, USED, WITHOUT_MEANING
from syncline.pipeline.sink.options import SinkOptions

GIVEN = {"kafka.bootstrap.servers": "one:9092, two:9093", "topic": "flights"}


def test_options_have_the_connectors_names_and_kafkas_defaults() -> None:
    """A stream is exactly once, a batch query at least once."""
    stream = SinkOptions.parse(GIVEN, streaming=True)
    batch = SinkOptions.parse(GIVEN, streaming=False)

    assert stream.client.bootstrap == (("one", 9092), ("two", 9093))
    assert (stream.topic, stream.codec, stream.request_bytes_max) == ("flights", 0, 1 << 20)
    assert (stream.exactly_once, batch.exactly_once) == (True, False)


def test_options_reach_what_they_are_for_in_any_case() -> None:
    """Spark hands options over in small letters, and adds some of its own."""
    given = {
        "bootstrap": "[::1]:9092",
        "KAFKA.Compression.Type": "LZ4",
        "kafka.max.request.size": "5000",
        "kafka.transaction.timeout.ms": "7000",
        "kafka.delivery.timeout.ms": "8000",
        "kafka.request.timeout.ms": "900",
        "kafka.client.id": "me",
        "deliveryguarantee": "At-Least-Once",
        "checkpointlocation": "/somewhere",
        "queryname": "q",
        "includeheaders": "true",
    }

    found = SinkOptions.parse(given, streaming=True)

    assert found.client.bootstrap == (("::1", 9092),)
    assert (found.codec, found.request_bytes_max, found.transaction_timeout_ms) == (3, 5_000, 7_000)
    assert (found.client.patience_ms, found.client.request_timeout_ms, found.client.client_id) == (8_000, 900, "me")
    assert (found.topic, found.exactly_once) == (None, False)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param({"topik": "t"}, "option topik does not exist; did you mean topic?", id="misspelled"),
        pytest.param({"subscribe": "t"}, "name the topic to write to in the option topic", id="reading"),
        pytest.param(
            {"kafka.compresion.type": "lz4"}, "did you mean kafka.compression.type?", id="misspelled configuration"
        ),
        pytest.param({"kafka.lingerms": "5"}, "did you mean kafka.linger.ms?", id="misspelled and without meaning"),
        pytest.param({"kafka.transactional.id": "x"}, "not supported: the sink makes one", id="transactional id"),
        pytest.param({"kafka.partitioner.class": "x"}, "number into the column partition", id="partitioner"),
        pytest.param(
            {"kafka.compression.type": "brotli"}, "'brotli': write none, gzip, snappy, lz4 or zstd", id="codec"
        ),
        pytest.param({"kafka.max.request.size": "1 MB"}, "write a whole number above 0", id="no number"),
        pytest.param({"topic": " "}, "write the name of a topic", id="empty topic"),
        pytest.param({"deliveryGuarantee": "once"}, "write exactly-once or at-least-once", id="guarantee"),
        pytest.param({"kafka.bootstrap.servers": "one"}, "write host:port", id="address"),
        pytest.param({"kafka.group.id": "g"}, "is for reading: Kafka's producers have no group.id", id="of consumers"),
        pytest.param({"linger.ms": "5"}, "did you mean kafka.linger.ms?", id="without the prefix"),
        pytest.param({"kafka.ssl.truststore.locatoin": "x"}, "did you mean kafka.ssl.truststore.location?", id="TLS"),
        pytest.param(
            {"kafka.ssl.truststore.location": "x"}, "has no effect with kafka.security.protocol PLAINTEXT", id="no TLS"
        ),
    ],
)
def test_mistake_is_named_with_what_to_write(given: dict[str, str], sentence: str) -> None:
    """One sentence, which begins with the option."""
    with pytest.raises(OptionError, match=r"^option ") as caught:
        SinkOptions.parse({**GIVEN, **given}, streaming=True)

    assert sentence in str(caught.value)


def test_options_of_encryption_and_authentication_are_those_of_the_source() -> None:
    """Guards: secured writing. Names are known in any case; the password is shown to nobody."""
    given = {
        **GIVEN,
        "kafka.security.protocol": "sasl_ssl",
        "KAFKA.SASL.MECHANISM": "SCRAM-SHA-512",
        "kafka.sasl.username": "writer",
        "kafka.sasl.password": "wonderland",
        "kafka.ssl.truststore.location": "/somewhere/ca.pem",
    }

    security = SinkOptions.parse(given, streaming=True).client.security

    assert security.tls is not None
    assert security.tls.trust is not None
    assert security.tls.trust.file == "/somewhere/ca.pem"
    assert security.login is not None
    assert (security.login.mechanism, security.login.username) == ("SCRAM-SHA-512", "writer")
    assert "wonderland" not in repr(SinkOptions.parse(given, streaming=True))


def test_exactly_once_is_refused_for_batch_queries_and_brokers_are_required() -> None:
    """Neither can be guessed, nor which of two lists of brokers is meant."""
    with pytest.raises(OptionError, match="name different brokers, one:9092, two:9093 and three:9092: remove"):
        SinkOptions.parse({**GIVEN, "bootstrap": "three:9092"}, streaming=False)
    with pytest.raises(OptionError, match="a batch query has no checkpoint"):
        SinkOptions.parse({**GIVEN, "deliveryGuarantee": "exactly-once"}, streaming=False)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        SinkOptions.parse({"topic": "t"}, streaming=False)


def test_configuration_without_meaning_is_named_once_in_the_log(caplog) -> None:
    """A stream parses its options in every micro-batch."""
    options._mention.cache_clear()

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            SinkOptions.parse({**GIVEN, "kafka.linger.ms": "5"}, streaming=True)

    assert [record.getMessage().split(" is ")[0] for record in caplog.records] == ["option kafka.linger.ms"]


def test_table_gives_each_configuration_one_meaning() -> None:
    """Used, refused and ignored are three lists."""
    assert len({*USED, *REFUSED, *WITHOUT_MEANING}) == len(USED) + len(REFUSED) + len(WITHOUT_MEANING)
