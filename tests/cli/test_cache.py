"""`syncline cache`: answers of several brokers, given as data, become lines, JSON and a page."""

import json
from pathlib import Path
from typing import Any

import pytest

from syncline.cli import cache
from syncline.local.control import ControlError
from syncline.local.layout import LocalClusterError
from tests.lag_report.readings import GB, answer, falling, quiet
from tests.pages import check_page


class Scripted:
    """A broker's control API that gives one answer, or refuses."""

    def __init__(self, given: dict[str, Any] | None) -> None:
        self.given = given

    def call(self, verb: str, *, timeout_s: float) -> dict[str, Any]:
        """Return the answer."""
        assert verb == "cache.show"
        assert timeout_s > 0
        if self.given is None:
            raise ControlError("broker 3 cannot be reached.")
        return self.given


def test_brokers_that_do_not_answer_are_told_of() -> None:
    """The others' answers are there, each under its broker."""
    answers, silent = cache.ask({1: Scripted(answer()), 2: Scripted(quiet()), 3: Scripted(None)})

    assert sorted(answers) == [1, 2]
    assert silent == {3: "broker 3 cannot be reached."}


def test_lines_for_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broker, then how well the model agrees, then who is missing."""
    monkeypatch.setenv("COLUMNS", "80")
    cache.show(
        {2: falling(hit_bytes=1, miss_bytes=0), 1: answer()}, {3: "It is away."}, None, None, cluster="d", as_json=False
    )
    said = capsys.readouterr().out

    assert said.index("Broker 1 serves 83.3 %") < said.index("Broker 2 serves") < said.index("Model and measurement")
    assert "now 40 GB: 16.7 % from disk" in said
    assert "group B  0 %          20 MB/s    100 %" in said
    assert said.endswith("It is away.\n\nThe answer of 1 broker is missing.\n")


def test_json_for_scripts_and_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--ram replaces what the broker found; the page is written beside."""
    page = tmp_path / "cache.html"
    cache.show({1: answer()}, {}, 2_000 * GB, page, cluster="d", as_json=True)
    found = json.loads(capsys.readouterr().out)

    (broker,) = found["brokers"]
    assert (broker["memory_bytes"], broker["hit_ratio"]) == (2_000 * GB, 1.0)
    assert (found["silent"], found["page"]) == ({}, str(page))
    check_page(page.read_text())


def test_brokers_share_the_memory_of_their_machine() -> None:
    """Each has its part; one that does not know it still does not."""
    found = cache.prepared({1: answer(), 2: answer(memory_bytes=-1)})

    assert [each["memory_bytes"] for each in found.values()] == [20 * GB, -1]


def test_size_of_memory_is_read_or_refused() -> None:
    """As all sizes; nothing is no memory."""
    assert cache.memory_of(None) is None
    assert cache.memory_of("8GB") == 8 * GB
    for text in ("0", "much", "8GB/s", "1/s"):
        with pytest.raises(LocalClusterError, match="--ram takes"):
            cache.memory_of(text)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"memory_bytes": -1}, "broker 2 does not know how much memory is free. Name a size with --ram SIZE."),
        ({"buckets": [[99, 1, 1]]}, "the counts of broker 2 contradict each other: there is no bucket"),
    ],
)
def test_answers_without_a_curve_are_refused_in_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    """Of which broker, and what to do."""
    with pytest.raises(LocalClusterError, match=sentence):
        cache.show({2: answer(**changed)}, {}, None, None, cluster="d", as_json=True)


def test_memory_may_be_given_where_a_broker_does_not_know_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Then nothing is missing."""
    cache.show({2: answer(memory_bytes=-1)}, {}, 8 * GB, None, cluster="d", as_json=True)

    assert json.loads(capsys.readouterr().out)["brokers"][0]["memory_bytes"] == 8 * GB


def test_memory_that_is_supposed_is_not_told_as_the_present(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Guards: `--ram` said that a broker serves what it would serve, and compared what was measured with that."""
    page = tmp_path / "cache.html"
    cache.show({1: answer()}, {}, 2_000 * GB, page, cluster="d", as_json=False)
    said = capsys.readouterr().out

    assert "With 2 TB of page cache, broker 1 would serve all reads from memory." in said
    assert "Now, with 40 GB, it serves 83.3 %." in said
    assert "which it would have." in said
    assert "with 2 TB: 0 % from disk" in said
    assert "now 2 TB" not in said
    # 82.5 % were measured; the curve says 83.3 % of the memory that the broker has.
    assert "Model and measurement differ by 0.8 points" in said
    assert "Every broker would serve its reads from memory." in page.read_text()

    assert "as measured" in page.read_text()

    # So little that the memory of now is not on the axis, nor what was measured with it.
    cache.show({1: answer(readers=[])}, {}, 1_000, page, cluster="d", as_json=True)
    assert "as measured" not in page.read_text()
    capsys.readouterr()

    cache.show({1: answer()}, {}, GB, page, cluster="d", as_json=True)
    (fields,) = json.loads(capsys.readouterr().out)["brokers"]
    assert (fields["is_supposed"], fields["memory_bytes"], fields["memory_now_bytes"]) == (True, GB, 40 * GB)
    assert fields["hit_ratio_now"] == pytest.approx(5 / 6)


def test_options_are_checked_before_any_broker_is_asked(tmp_path: Path) -> None:
    """A wrong size, a place where no page can be; then the cluster that does not run."""
    with pytest.raises(LocalClusterError, match="--ram takes"):
        cache.cache("0", None, tmp_path, False)
    with pytest.raises(LocalClusterError, match="cannot write"):
        cache.cache(None, tmp_path, tmp_path, False)
    with pytest.raises(LocalClusterError, match="no cluster is running"):
        cache.cache("1GB", None, tmp_path, False)
