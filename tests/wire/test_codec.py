"""Messages through kio: every one that is served, and noise."""

import contextlib
import random
import struct
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncline.wire import codec
from syncline.wire.api import INTERNAL_VERSIONS, ApiKey
from syncline.wire.entities import build
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import ITEMS_MAX, TAGS_MAX
from syncline.wire.request_header import parse_request_header
from tests.wire.drawn import drawn
from tests.wire.entities import request_module

SERVED = [
    (key, version)
    for key, served in INTERNAL_VERSIONS.items()
    if key < 20000
    for version in range(served.min, served.max + 1)
]
# kio never sees their records here.
HAND_WRITTEN = {ApiKey.PRODUCE, ApiKey.FETCH}
# Messages of each type and version.
SEEDS = 40
NEWEST = [(key, served.max) for key, served in INTERNAL_VERSIONS.items() if key < 20000]


def test_preload_imports_every_message_that_is_served() -> None:
    """A parent that forks brokers can have all schemas ready."""
    codec.preload(SERVED)

    for key, version in SERVED:
        assert codec.request_type(key, version).__api_key__ == key
        assert codec.response_type(key, version).__version__ == version


_TWO_THREADS = """
import importlib, sys, threading
from importlib.machinery import PathFinder
from syncline.wire import codec

PACKAGE = "kio.schema.alter_partition.v3"
found = []
second = threading.Thread(target=lambda: found.append(codec.request_type(56, 3)))

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def exec_module(module):
            # The first thread has the package's lock. Go on when the second one waits for that.
            second.start()
            while not importlib._bootstrap._blocking_on:
                pass
            execute(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
codec.response_type(56, 3)
second.join()
assert found, "the second thread has failed"
"""


def test_two_threads_may_import_the_same_message() -> None:
    """Guards: a worker that imports ahead and the loop waited for each other, and importlib raised _DeadlockError."""
    ran = subprocess.run([sys.executable, "-c", _TWO_THREADS], check=False, capture_output=True, text=True, timeout=10)

    assert ran.returncode == 0, ran.stderr


def test_decode_copies_so_that_the_receive_buffer_may_be_reused() -> None:
    """The body may be writable, lie anywhere in the buffer, and change afterwards."""
    module = request_module(ApiKey.METADATA, 9)
    entity = module.MetadataRequest(
        topics=(module.MetadataRequestTopic(name="topic"),),
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    buffer = bytearray(b"head" + codec.encode_request(entity) + b"more")
    decoded = codec.decode_request(ApiKey.METADATA, 9, memoryview(buffer), 4)
    buffer[:] = bytes(len(buffer))

    assert decoded == entity
    assert codec.encode_request(decoded, ApiKey.METADATA, 9) == codec.encode_request(entity)


def test_unknown_version_is_a_decode_error() -> None:
    """There is no schema for it."""
    with pytest.raises(DecodeError):
        codec.decode_request(ApiKey.METADATA, 99, b"")


@pytest.mark.parametrize("key", sorted({key for key, _ in SERVED} - HAND_WRITTEN), ids=lambda key: key.name.lower())
def test_every_message_reads_back_what_was_written(key: ApiKey) -> None:
    """Requests and answers in every version served, with whatever the schema allows in them."""
    served = INTERNAL_VERSIONS[key]
    for version in range(served.min, served.max + 1):
        for entity_type, decode, encode in (
            (codec.request_type(key, version), codec.decode_request, codec.encode_request),
            (codec.response_type(key, version), codec.decode_response, codec.encode_response),
        ):
            for seed in range(SEEDS):
                rng = random.Random(seed)
                told = f"version {version}, seed {seed}"
                written = encode(drawn(entity_type, rng))
                assert encode(decode(key, version, b"head" + written + b"more", 4)) == written, told
                damage = rng.randint(0, max(len(written) - 1, 0))
                for noise in (written[:damage], written[:damage] + b"\xff\xff\xff\xff\x0f" + written[damage + 5 :]):
                    with contextlib.suppress(DecodeError):
                        decode(key, version, noise)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(NEWEST), st.booleans(), st.binary(max_size=80))
def test_noise_is_a_message_or_a_decode_error(message: tuple[ApiKey, int], is_request: bool, noise: bytes) -> None:
    """Nothing else leaves the decoder."""
    decode = codec.decode_request if is_request else codec.decode_response
    with contextlib.suppress(DecodeError):
        decode(*message, noise)


@pytest.mark.parametrize(("key", "version"), NEWEST, ids=lambda value: str(int(value)))
def test_announced_counts_are_refused_before_anything_is_allocated(key: ApiKey, version: int) -> None:
    """Arrays of four thousand million items in a hundred bytes: believing one would end the process."""
    for start in range(12):
        for noise in (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
            for filler in (b"\x00", b"\x02"):
                with contextlib.suppress(DecodeError):
                    codec.decode_request(key, version, filler * start + noise * 20)
                with contextlib.suppress(DecodeError):
                    codec.decode_response(key, version, filler * start + noise * 20)


def test_more_items_than_any_use_has_are_refused() -> None:
    """A hundred thousand and one groups: reading millions would make all other requests wait."""
    asked = b"".join((struct.pack(">i", ITEMS_MAX + 1), b"\x00\x01g" * (ITEMS_MAX + 1)))

    with pytest.raises(DecodeError, match="100001 items"):
        codec.decode_request(ApiKey.DESCRIBE_GROUPS, 0, asked)


def test_more_tagged_fields_than_any_use_has_are_refused() -> None:
    """In a message as in its header: no message has more than a handful."""
    tags = bytes([TAGS_MAX + 1]) + b"\x05\x00" * (TAGS_MAX + 1)
    list_offsets = struct.pack(">ibB", -1, 0, 1)

    with pytest.raises(DecodeError, match="101 tagged fields"):
        codec.decode_request(ApiKey.LIST_OFFSETS, 6, list_offsets + tags)
    with pytest.raises(DecodeError, match="101 tagged fields"):
        parse_request_header(struct.pack(">hhih", ApiKey.LIST_OFFSETS, 6, 1, -1) + tags + list_offsets)


def test_strings_that_older_versions_could_not_give_back_are_refused() -> None:
    """A name or value longer than 32,767 bytes would make every older request for it fail."""

    def asked(size: int) -> bytes:
        config = {"name": "x", "config_operation": 0, "value": "v" * size}
        resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
        fields = {"resources": [resource], "validate_only": False}
        return codec.encode_request(build(codec.request_type(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), fields))

    codec.decode_request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked(32_767))
    with pytest.raises(DecodeError, match="32768 bytes"):
        codec.decode_request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked(32_768))
