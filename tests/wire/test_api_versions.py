"""ApiVersions: what a client can learn before it knows anything."""

import pytest

from syncline.wire import codec
from syncline.wire.api import ADVERTISED_VERSIONS
from syncline.wire.api_versions import (
    Feature,
    encode_api_versions_response,
    encode_unsupported_api_versions,
    is_software_name,
    parse_api_versions_request,
)
from syncline.wire.errors import DecodeError
from tests.wire.entities import request_module

FEATURES = [Feature("group.version", 0, 1, 1), Feature("metadata.version", 7, 25, 25), Feature("unused", 1, 2)]


@pytest.mark.parametrize("version", range(5))
def test_encoded_response_is_what_kio_writes(version: int) -> None:
    """Kio reads our answer and writes the same bytes."""
    ours = encode_api_versions_response(version, 0, ADVERTISED_VERSIONS, FEATURES, features_epoch=9, throttle_ms=3)
    theirs = codec.decode_response(18, version, ours)

    assert codec.encode_response(theirs) == ours
    assert {row.api_key: (row.min_version, row.max_version) for row in theirs.api_keys} == ADVERTISED_VERSIONS
    if version >= 3:
        names = [feature.name for feature in theirs.supported_features]
        assert names == ["group.version", "metadata.version", "unused"][version == 3 :]
        assert [feature.max_version_level for feature in theirs.finalized_features] == [1, 25]
        assert theirs.finalized_features_epoch == 9


@pytest.mark.parametrize("version", [3, 4])
def test_request_is_read_in_versions_that_have_a_body(version: int) -> None:
    """Name and version of the client's software."""
    module = request_module(18, version)
    body = codec.encode_request(
        module.ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16")
    )

    assert parse_api_versions_request(body, version) == ("librdkafka", "2.16")
    for size in range(len(body)):
        with pytest.raises(DecodeError):
            parse_api_versions_request(body[:size], version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_request_without_body_says_nothing(version: int) -> None:
    """Old clients do not introduce themselves."""
    assert parse_api_versions_request(b"", version) == (None, None)


@pytest.mark.parametrize("name", ["librdkafka", "a-b.c", "x", "a" * 300, "apache-kafka-java"])
def test_software_names_are_accepted_as_kafka_does(name: str) -> None:
    """Letters, digits, inner dots and hyphens, of any length."""
    assert is_software_name(name)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a_b", ".a", "a-", "é", "a\n"])
def test_software_names_are_refused_as_kafka_does(name: str) -> None:
    """The observed refusals."""
    assert not is_software_name(name)


def test_unknown_version_is_answered_in_version_0_with_one_row() -> None:
    """Error 35 and the versions of ApiVersions itself."""
    answer = codec.decode_response(18, 0, encode_unsupported_api_versions())

    assert answer.error_code.value == 35
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
