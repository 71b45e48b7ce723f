"""ApiVersions: the table, unsupported versions of itself, names of clients."""

from tests.conformance.apis import API_VERSIONS, every
from tests.conformance.requests import api_versions, metadata
from tests.conformance.steps import Action, Step, sequence


@sequence(*every(API_VERSIONS))
def table(version: int) -> list[Action]:
    """The table of keys, and features from v3."""
    return [api_versions(version)]


@sequence(5, 99, -1)
def unsupported(version: int) -> list[Action]:
    """An unknown version of ApiVersions is answered with its own range in the form of v0."""
    return [
        Step(key=API_VERSIONS, version=version, body=b"\2a\2b\0", header_version=2, answer_version=0),
        metadata(1, []),
    ]


@sequence()
def unsupported_without_tags(_: int) -> list[Action]:
    """The header of an unknown version must still be one of v2."""
    return [Step(key=API_VERSIONS, version=99, body=b"", header_version=1, answer_version=0)]


BAD_NAMES = ("", "a b", "a/b", "a_b", ".a", "a.", "-a")


@sequence(3, 4)
def bad_software_names(version: int) -> list[Action]:
    """A client name outside the pattern is refused with 42 and an empty table; the connection stays usable."""
    return [*(api_versions(version, bad) for bad in BAD_NAMES), api_versions(0)]


@sequence(3, 4)
def bad_software_versions(version: int) -> list[Action]:
    """The version of the client follows the same pattern."""
    return [*(api_versions(version, "good", bad) for bad in BAD_NAMES), api_versions(0)]


@sequence(3)
def good_software_names(version: int) -> list[Action]:
    """Dots and dashes inside are fine, length is not limited."""
    return [api_versions(version, "a-b.c", "1.0-x"), api_versions(version, "a" * 300, "b")]
