"""Names of options: a misspelled one is an error that says which was meant."""

import pytest

from syncline.pipeline.errors import OptionError
from syncline.pipeline.options import kafka_names
from syncline.pipeline.source.options import SourceOptions

MINIMUM = {"kafka.bootstrap.servers": "a:9092", "subscribe": "flights"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("kafka.isolation.levle", "did you mean kafka.isolation.level", id="letters swapped"),
        pytest.param("kafka.isolation", "did you mean kafka.isolation.level", id="half a name"),
        pytest.param("kafka.sasl.mechansim", "did you mean kafka.sasl.mechanism", id="security"),
        pytest.param("kafka.bootstrap.server", "did you mean kafka.bootstrap.servers", id="one server"),
        pytest.param("kafka.frobnicate", "Kafka's consumers have no configuration frobnicate$", id="nothing like it"),
        pytest.param("kafka.compression.type", "is for writing", id="of a producer"),
        pytest.param("isolation.level", "did you mean kafka.isolation.level", id="without kafka"),
        pytest.param("maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger", id="ours"),
        pytest.param("topic", "name the topics to read in the option subscribe", id="of a writer"),
        pytest.param("path", "name the topics to read in the option subscribe", id="load with an argument"),
    ],
)
def test_names_that_do_not_exist_are_refused_with_the_right_one(name: str, message: str) -> None:
    """Guards: a misspelled `kafka.isolation.levle` passes and reads aborted data."""
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse({**MINIMUM, name: "x"}, streaming=False)


def test_names_of_kafka_without_effect_are_accepted_and_told() -> None:
    """The same options serve the connector; the log names those that concern only it, once."""
    given = {**MINIMUM, "kafka.max.poll.records": "500", "kafka.check.crcs": "true", "groupIdPrefix": "g"}

    options = SourceOptions.parse({**given, "maxOffsetsPerTrigger": "5"}, streaming=False)

    assert ("groupIdPrefix", "kafka.check.crcs", "kafka.max.poll.records", "maxOffsetsPerTrigger") == options.ignored
    assert SourceOptions.parse(MINIMUM, streaming=False).ignored == ()


def test_names_of_kafka_are_all_there() -> None:
    """A list that lost a line would refuse what Kafka accepts; these are one of each client and all that we heed."""
    assert {"isolation.level", "client.id", "group.id", "retries", "sasl.jaas.config"} <= kafka_names.READER
    assert {"acks", "linger.ms", "transactional.id"} <= kafka_names.PRODUCER
    assert len(kafka_names.READER) == 119
    assert not kafka_names.READER & kafka_names.PRODUCER
