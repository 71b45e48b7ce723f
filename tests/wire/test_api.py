"""The table of messages: complete, consistent with the schemas, and no trap for clients."""

import subprocess
import sys

import pytest

from syncline.wire import codec
from syncline.wire.api import (
    ADVERTISED_VERSIONS,
    CLIENT_VERSIONS,
    INTERNAL_VERSIONS,
    ApiKey,
    is_served,
    request_header_version,
    response_header_version,
)

PUBLIC = [
    (key, version)
    for key, served in INTERNAL_VERSIONS.items()
    if key < 20000
    for version in range(served.min, served.max + 1)
]


@pytest.mark.parametrize("key", sorted({key for key, _ in PUBLIC}), ids=lambda key: key.name.lower())
def test_header_versions_are_those_of_the_schemas(key: ApiKey) -> None:
    """For every version served, in both directions."""
    for each, version in PUBLIC:
        if each == key:
            request, response = codec.request_type(key, version), codec.response_type(key, version)
            assert request_header_version(key, version) == request.__header_schema__.__version__
            assert response_header_version(key, version) == response.__header_schema__.__version__


def test_api_versions_is_answered_with_header_0_in_every_version() -> None:
    """A client reads this answer before it knows what the broker speaks."""
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in range(6)] == [0] * 6
    assert [request_header_version(ApiKey.API_VERSIONS, version) for version in range(6)] == [1, 1, 1, 2, 2, 2]


def test_produce_is_advertised_from_0_and_served_from_3() -> None:
    """Old librdkafka turns compression off at any higher floor (KAFKA-18659)."""
    assert ADVERTISED_VERSIONS[ApiKey.PRODUCE] == (0, 11)
    assert not is_served(ApiKey.PRODUCE, 2, "client")
    assert is_served(ApiKey.PRODUCE, 3, "client")


def test_only_served_messages_are_advertised() -> None:
    """What is listed is served; telemetry and what brokers say to each other are not listed."""
    assert ADVERTISED_VERSIONS.keys() == CLIENT_VERSIONS.keys()
    for key, served in CLIENT_VERSIONS.items():
        assert ADVERTISED_VERSIONS[key].max == served.max
    assert not {4, 5, 6, 7, 56, 62, 63, 71, 72} & {int(key) for key in ADVERTISED_VERSIONS}
    assert not any(is_served(key, 0, "client") for key in (ApiKey.METADATA_DELTAS, ApiKey.BROKER_HEARTBEAT))
    assert is_served(ApiKey.METADATA_DELTAS, 0, "internal")
    assert not is_served(999, 0, "client")


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_clients_that_guess_the_release_guess_a_sensible_one() -> None:
    """kafka-python derives the broker's release from the table and picks its features by it."""
    from kafka.protocol.broker_version_data import BrokerVersionData

    guessed = BrokerVersionData(api_versions={int(key): tuple(served) for key, served in ADVERTISED_VERSIONS.items()})

    assert guessed.broker_version >= (3, 0)


def test_rooms_import_nothing_heavy() -> None:
    """Start-up has a budget: schemas and codecs are imported when they are first needed."""
    program = (
        "import sys, syncline.wire.codec, syncline.wire.fetch, syncline.wire.produce, syncline.wire.frames, "
        "syncline.wire.metadata, syncline.wire.api_versions, syncline.records.validate, syncline.records.builder\n"
        "heavy = {'kio', 'cramjam', 'hypothesis', 'asyncio', 'dataclasses', 'uuid', 'crc32c', 'inspect'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
