"""How tests are spread over processes: what stays together, and in which order it is handed out."""

from pathlib import Path

import pytest

from tests.spreading import LONG, ROOMS, SINGLE, WAITING, next_scope, ordered, scope_of

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


def test_what_takes_longest_is_first_of_its_kind() -> None:
    """Whole rooms before modules, of what computes the simulations; a long one at the end would run alone."""
    assert list(ordered([*NODEIDS, "tests/virtual/operators/test_throttles.py::test_a"])) == [
        "interop/",
        "virtual/operators/test_throttles.py",
        "virtual/test_seeds.py::test_seed[1]",
        "virtual/test_seeds.py::test_seed[2]",
        "cli/",
        "core/test_isr.py",
        "wire/test_codec.py",
        "process/test_faults.py",
    ]


@pytest.mark.parametrize(
    ("number", "processes", "taken"),
    [
        pytest.param(0, 3, "core/test_isr.py", id="the first of three computes"),
        pytest.param(1, 3, "interop/", id="the others wait"),
        pytest.param(2, 3, "interop/", id="all others"),
        pytest.param(3, 6, "core/test_isr.py", id="of six four compute"),
        pytest.param(4, 6, "interop/", id="and two wait"),
        pytest.param(0, 2, "core/test_isr.py", id="one computes when there are few"),
        pytest.param(1, 2, "interop/", id="and the other one waits"),
        pytest.param(4, 4, "interop/", id="in the place of one that died"),
    ],
)
def test_some_processes_take_what_waits_and_the_others_what_computes(number: int, processes: int, taken: str) -> None:
    """Each takes the first of its kind."""
    assert next_scope(["interop/", "core/test_isr.py", "cli/", "wire/test_codec.py"], number, processes) == taken


def test_process_with_nothing_of_its_kind_takes_of_the_other() -> None:
    """None is idle while another has something left."""
    assert next_scope(["lab/test_lag_modes.py", "local/test_ports.py"], 0, 4) == "lab/test_lag_modes.py"
    assert next_scope(["core/test_isr.py", "wire/test_codec.py"], 3, 4) == "core/test_isr.py"


def test_rooms_and_modules_that_are_spread_in_their_own_way_exist() -> None:
    """A module that was renamed would silently become slow."""
    missing = [each for each in (*ROOMS, *SINGLE, *WAITING, LONG) if not (Path(__file__).parent / each).exists()]

    assert missing == []
