"""Headers of requests and answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.wire import codec
from syncline.wire.api import INTERNAL_VERSIONS, ApiKey, request_header_version
from syncline.wire.errors import DecodeError
from syncline.wire.frames import frame_request, frame_response
from syncline.wire.request_header import encode_request_header, parse_request_header
from syncline.wire.response_header import correlation_id_of, response_body_position
from tests.strategies import int32s, texts

keys_and_versions = st.sampled_from(sorted(INTERNAL_VERSIONS)).flatmap(
    lambda key: st.tuples(st.just(key), st.integers(*INTERNAL_VERSIONS[key]))
)


@given(keys_and_versions, int32s, st.none() | texts, st.binary(max_size=9))
def test_header_reads_back_what_was_written(
    message: tuple[ApiKey, int], correlation_id: int, client_id: str | None, body: bytes
) -> None:
    """Both header versions, null and empty client ids included; the body begins behind it."""
    key, version = message
    header = encode_request_header(key, version, correlation_id, client_id)
    frame = memoryview(header + body)

    assert parse_request_header(frame) == (key, version, correlation_id, client_id, len(header))


@given(st.sampled_from([(1, 9), (2, 12)]), int32s, texts)
def test_header_is_what_kio_writes(versions: tuple[int, int], correlation_id: int, client_id: str) -> None:
    """The schema's own header has the same bytes."""
    header_version, metadata_version = versions
    from kio.schema.request_header.v1.header import RequestHeader as First
    from kio.schema.request_header.v2.header import RequestHeader as Second

    header = (First if header_version == 1 else Second)(
        request_api_key=1, request_api_version=metadata_version, correlation_id=correlation_id, client_id=client_id
    )
    if request_header_version(1, metadata_version) == header_version:
        theirs = codec.encode_request(header)
        assert encode_request_header(1, metadata_version, correlation_id, client_id) == theirs


def test_header_with_tags_is_skipped() -> None:
    """The parser skips unknown tagged fields."""
    tags = b"\x02\x00\x01x\x05\x02yz"
    header = parse_request_header(encode_request_header(3, 12, 7, "a")[:-1] + tags + b"body")

    assert (header.client_id, header.body_position) == ("a", 11 + len(tags))


@pytest.mark.parametrize("size", range(10))
def test_frames_that_end_inside_the_header_are_refused(size: int) -> None:
    """Key, version, correlation id and the client id's length are ten bytes."""
    with pytest.raises(DecodeError):
        parse_request_header(encode_request_header(3, 12, 7, None)[:size])


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param("03e7000000000007ffff", id="unknown key"),
        pytest.param("0034000000000007ffff00", id="controller's key"),
        pytest.param("0004000100000007ffff", id="removed key"),
        pytest.param("0003ffff00000007ffff", id="negative version"),
        pytest.param("000300010000000700ff", id="client id longer than the frame"),
        pytest.param("0003000100000007fffe", id="client id of -2 bytes"),
        pytest.param("00030001000000070001ff", id="client id not UTF-8"),
        pytest.param("0012000500000007ffff", id="newer ApiVersions without tag byte"),
        pytest.param("0003000c00000007ffff01", id="tags announced and missing"),
        pytest.param("0003000c00000007ffffffffffff7f", id="endless tags"),
        pytest.param("474554202f20485454502f312e310d0a", id="HTTP"),
    ],
)
def test_malformed_headers_are_refused(frame: str) -> None:
    """Each raises DecodeError and nothing else; the broker closes the connection."""
    with pytest.raises(DecodeError):
        parse_request_header(bytes.fromhex(frame))


def test_newer_api_versions_is_read_so_that_it_can_be_answered() -> None:
    """A version above all known ones has the newest header."""
    header = parse_request_header(bytes.fromhex("0012006300000007ffff00"))

    assert (header.key, header.version, header.body_position) == (ApiKey.API_VERSIONS, 99, 11)


@given(int32s, st.sampled_from([0, 1]), st.binary(max_size=9))
def test_response_header_reads_back_what_was_written(correlation_id: int, version: int, body: bytes) -> None:
    """The answer's id, and where its body begins."""
    (whole,) = frame_response(correlation_id, version, [body])
    frame = memoryview(whole)[4:]

    assert correlation_id_of(frame) == correlation_id
    assert frame[response_body_position(frame, version) :] == body


def test_response_headers_that_end_early_are_refused() -> None:
    """An answer without an id belongs to no request."""
    with pytest.raises(DecodeError):
        correlation_id_of(b"\x00\x00\x00")
    with pytest.raises(DecodeError):
        response_body_position(b"\x00\x00\x00\x01", 1)


@pytest.mark.parametrize("size", [0, 10, 20_000])
def test_framed_messages_begin_with_their_size(size: int) -> None:
    """Small messages are one buffer, large ones keep their parts."""
    parts = [b"a" * size, memoryview(b"b" * size)]
    answer = frame_response(7, 1, parts)
    request = frame_request(3, 12, 7, "me", parts)

    assert b"".join(answer) == (5 + 2 * size).to_bytes(4, "big") + b"\x00\x00\x00\x07\x00" + b"".join(parts)
    assert len(b"".join(request)) == 4 + int.from_bytes(b"".join(request)[:4], "big")
    assert len(answer) == (1 if size < 8000 else 3)
