"""Faults from Python: what is refused before any broker is asked."""

from pathlib import Path
from typing import Any

import pytest

from syncline.local.faults import Faults
from syncline.local.layout import LocalClusterError


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        pytest.param("fire", {}, "there is no kind of fault 'fire'. Known kinds: disk-slow, ", id="kind"),
        pytest.param(
            "disk-slow", {"delay": 2}, "faults have no option 'delay'. Known: broker, source, ", id="misspelled option"
        ),
        pytest.param("disk-slow", {"delay_s": "2s"}, "a delay is a number of seconds, not '2s'.", id="delay as text"),
        pytest.param("disk-slow", {"delay_s": -1}, "a delay is more than 0 s, not -1.", id="negative delay"),
        pytest.param("disk-slow", {"delay_s": 0}, "a delay is more than 0 s, not 0.", id="no delay"),
        pytest.param("disk-slow", {"delay_s": 601}, "a delay is at most 600 s, not 601.", id="long delay"),
        pytest.param("disk-slow", {}, "disk-slow needs --delay.", id="delay missing"),
        pytest.param(
            "disk-stuck", {"for_s": "20s"}, "a fault lasts for a number of seconds, not '20s'.", id="time as text"
        ),
        pytest.param("disk-stuck", {"for_s": 0}, "a fault lasts for more than 0 s, not 0.", id="no time"),
        pytest.param(
            "disk-stuck", {"for_s": float("nan")}, "a fault lasts for at most 2147483 s, not nan.", id="no number"
        ),
    ],
)
def test_mistake_is_refused_in_a_sentence(tmp_path: Path, kind: str, options: dict[str, Any], sentence: str) -> None:
    """Guards: a misspelled option that had no effect, a negative delay of 1 ms, a TypeError for a text."""
    with pytest.raises(LocalClusterError) as refusal:
        Faults(tmp_path).add(kind, **options)

    assert str(refusal.value).startswith(sentence)
