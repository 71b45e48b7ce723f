"""How tests are spread over processes: what stays together, and in which order it is handed out."""

from pathlib import Path

from tests.spreading import ROOMS, SINGLE, WAITING, mixed, scope_of

NODEIDS = [
    "tests/cli/test_help.py::test_help",
    "tests/core/test_isr.py::test_a",
    "tests/core/test_isr.py::test_b",
    "tests/interop/test_kcat.py::test_kcat[gzip]",
    "tests/interop/test_limits.py::test_limits",
    "tests/process/test_faults.py::test_cut",
    "tests/virtual/test_seeds.py::test_seed[1]",
    "tests/virtual/test_seeds.py::test_seed[2]",
    "tests/wire/test_codec.py::test_a[::]",
]


def test_scope_is_a_room_a_module_or_a_single_test() -> None:
    """Tests that share what is slow to start stay together; seeds go to any process."""
    assert list(dict.fromkeys(map(scope_of, NODEIDS))) == [
        "cli/",
        "core/test_isr.py",
        "interop/",
        "process/test_faults.py",
        "virtual/test_seeds.py::test_seed[1]",
        "virtual/test_seeds.py::test_seed[2]",
        "wire/test_codec.py",
    ]


def test_tests_that_wait_and_tests_that_compute_are_mixed() -> None:
    """The slowest room that waits is first; the first half of what computes is between those that wait."""
    places = mixed(NODEIDS)

    assert sorted(places, key=places.__getitem__) == [
        "virtual/test_seeds.py::test_seed[1]",
        "interop/",
        "process/test_faults.py",
        "virtual/test_seeds.py::test_seed[2]",
        "cli/",
        "core/test_isr.py",
        "wire/test_codec.py",
    ]


def test_rooms_and_modules_that_are_spread_in_their_own_way_exist() -> None:
    """A module that was renamed would silently become slow."""
    missing = [each for each in (*ROOMS, *SINGLE, *WAITING) if not (Path(__file__).parent / each).exists()]

    assert missing == []
