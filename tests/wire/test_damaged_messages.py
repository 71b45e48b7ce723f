"""Damaged messages end in a message or a DecodeError, and nothing else, in every hand-written decoder."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from syncline.wire.api_versions import parse_api_versions_request
from syncline.wire.errors import DecodeError
from syncline.wire.fetch import parse_fetch_request
from syncline.wire.fetch_response import encode_fetch_response, parse_fetch_response
from syncline.wire.metadata import parse_metadata_request
from syncline.wire.produce import encode_produce_response, parse_produce, parse_produce_response
from syncline.wire.request_header import encode_request_header, parse_request_header
from tests.strategies import damaged, fetch_requests, fetch_responses, produce_topics, produced_topics
from tests.wire.entities import fetch_request, produce_request


def survives(parse: object, data: bytes, *arguments: object) -> None:
    """Decode, and let only DecodeError pass."""
    with contextlib.suppress(DecodeError):
        parse(memoryview(data), *arguments)


@given(
    st.sampled_from([7, 9, 11]).flatmap(
        lambda version: st.tuples(
            st.just(version), damaged(produce_topics().map(lambda topics: produce_request(version, "id", 1, 5, topics)))
        )
    )
)
def test_produce_requests_survive_damage(example: tuple[int, bytes]) -> None:
    """Records never reach outside the buffer."""
    version, data = example
    survives(parse_produce, data, version)
    try:
        request = parse_produce(data, version)
    except DecodeError:
        return
    for _, entries in request.topics:
        assert all(0 <= start <= (end or start) <= len(data) for _, start, end in entries)


@given(damaged(produced_topics().map(lambda topics: bytes(encode_produce_response(11, topics)))))
def test_produce_responses_survive_damage(data: bytes) -> None:
    """What another broker answers is not trusted either."""
    survives(parse_produce_response, data, 11)


@given(
    st.sampled_from([4, 11, 12, 17]).flatmap(
        lambda version: st.tuples(
            st.just(version), damaged(fetch_requests(version).map(lambda request: fetch_request(version, request)))
        )
    )
)
def test_fetch_requests_survive_damage(example: tuple[int, bytes]) -> None:
    """Clients and followers alike."""
    survives(parse_fetch_request, example[1], example[0])


@given(
    st.sampled_from([12, 13, 17]).flatmap(
        lambda version: st.tuples(
            st.just(version),
            damaged(fetch_responses(version).map(lambda response: b"".join(encode_fetch_response(response, version)))),
        )
    )
)
def test_fetch_responses_survive_damage(example: tuple[int, bytes]) -> None:
    """What the leader answers is not trusted either."""
    survives(parse_fetch_response, example[1], example[0])


@given(st.binary(max_size=100), st.integers(0, 17))
def test_noise_survives_in_every_decoder(noise: bytes, version: int) -> None:
    """Bytes that were never a message."""
    survives(parse_request_header, noise)
    survives(parse_request_header, encode_request_header(version % 4, version, 1, None)[:9] + noise)
    survives(parse_produce, noise, version % 9 + 3)
    survives(parse_fetch_request, noise, max(version, 4))
    survives(parse_metadata_request, noise, version % 13)
    survives(parse_api_versions_request, noise, version % 5)
    survives(parse_fetch_response, noise, max(version, 12))
    survives(parse_produce_response, noise, 11)
