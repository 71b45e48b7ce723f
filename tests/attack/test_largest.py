"""Requests with lists and strings at their limits are what they claim to be: brokers' own decoders read them."""

import pytest

from syncline.wire.announced_counts import count_checker
from syncline.wire.api import CLIENT_VERSIONS, ApiKey, is_too_large
from syncline.wire.codec import decode_request, request_type
from syncline.wire.request_header import parse_request_header
from tests.attack.largest import STRING_BYTES_MAX, frame_with_list, frame_with_string, list_paths, string_paths

SIZE_BYTES = 4
# Their items are empty lists, or numbers of brokers or of kinds.
ALL_THE_SAME = {("topics", "assignments"), ("topics", "partitions", "replicas"), ("resource_types",)}
ALL = [(key, version) for key, served in CLIENT_VERSIONS.items() for version in sorted({served.min, served.max})]


def found(entity: object, path: tuple[str, ...]) -> object:
    """Return what is at a path; of each list on the way the first item."""
    for name in path[:-1]:
        entity = getattr(entity, name)
        entity = entity[0] if isinstance(entity, tuple) else entity
    return getattr(entity, path[-1])


@pytest.mark.parametrize(("key", "version"), ALL, ids=lambda value: getattr(value, "name", str(value)))
def test_a_list_has_the_items_that_were_asked_for(key: ApiKey, version: int) -> None:
    """The count, the items and what follows them fit together; names in different items differ."""
    for path in list_paths(key, version):
        frame = frame_with_list(key, version, path, {}, 300)[SIZE_BYTES:]
        header = parse_request_header(memoryview(frame))
        items = found(decode_request(key, version, frame, header.body_position), path)

        assert isinstance(items, tuple)
        assert len(items) == 300
        assert len(set(items)) == 300 or path in ALL_THE_SAME, f"the items of {path} are the same"


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_GROUPS])
def test_the_largest_lists_are_legal(key: ApiKey) -> None:
    """No request is refused for its size, nor for a count."""
    version = CLIENT_VERSIONS[key].max
    check = count_checker(request_type(key, version))
    assert check is not None
    for path in list_paths(key, version):
        frame = frame_with_list(key, version, path, {}, 1 << 30)[SIZE_BYTES:]
        assert not is_too_large(key, len(frame))
        check(memoryview(frame), parse_request_header(memoryview(frame)).body_position)


@pytest.mark.parametrize(("key", "version"), ALL, ids=lambda value: getattr(value, "name", str(value)))
def test_a_string_is_as_long_as_it_may_be(key: ApiKey, version: int) -> None:
    """Each string in turn, also inside lists."""
    for path in string_paths(key, version):
        frame = frame_with_string(key, version, path, {})[SIZE_BYTES:]
        header = parse_request_header(memoryview(frame))
        value = found(decode_request(key, version, frame, header.body_position), path)

        assert len(value[0] if isinstance(value, tuple) else value) == STRING_BYTES_MAX
