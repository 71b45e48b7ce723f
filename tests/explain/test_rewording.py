"""Rewording every sentence changes no diagnosis, and there are no words beside those of `wording`."""

import pytest

from syncline.explain.diagnosis.findings import Diagnosis
from syncline.explain.words import wording
from syncline.explain.words.evidence import evidence_against, evidence_for
from syncline.explain.words.phrases import reason_in_words, span, title_of
from syncline.explain.words.sentences import tell
from syncline.model.reasons import Reason

from .catalogue import CATALOGUE, Incident
from .rewording import mark, replace, templates
from .witnesses import diagnosed, shown

# No letter, and in no template.
_NONSENSE = "\N{SECTION SIGN}"


def diagnosis_of(incident: Incident) -> Diagnosis:
    """Return the diagnosis of an incident of the catalogue."""
    return diagnosed(*incident.witnesses(), since=incident.since)


def all_words(diagnosis: Diagnosis) -> list[str]:
    """Return every text that is made from a diagnosis."""
    texts = tell(diagnosis, shown)
    for each in diagnosis.findings:
        texts += [title_of(each), *evidence_for(each, shown), *evidence_against(each, shown)]
    return texts


@pytest.mark.parametrize("incident", [pytest.param(each, id=name) for name, each in CATALOGUE.items()])
def test_rewording_changes_no_diagnosis(monkeypatch: pytest.MonkeyPatch, incident: Incident) -> None:
    """Causes, effects, numbers and conditions are the same when every sentence is nonsense."""
    found = diagnosis_of(incident)
    for name, key, _ in list(templates(wording)):
        replace(monkeypatch, wording, name, key, _NONSENSE)

    reworded = diagnosis_of(incident)

    assert reworded == found
    texts = all_words(reworded)
    assert any(_NONSENSE in each for each in texts)
    assert not any(character.isalpha() for each in texts for character in each), texts


def test_every_template_is_used_by_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the catalogue fills in the fields of each one; reasons and spans of hours are filled in below."""
    marks = mark(monkeypatch, wording, besides={"REASONS", "HOURS", "DAYS"})

    shown_marks = set("".join(text for each in CATALOGUE.values() for text in all_words(diagnosis_of(each))))

    assert [place for mark, place in marks.items() if mark not in shown_marks] == []


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (999, "999 ms"),
        (119_900, "119.9 s"),
        (120_000, "2 min"),
        (7_199_000, "120 min"),
        (7_200_000, "2 h"),
        (93_600_000, "26 h"),
        (172_800_000, "2 days"),
        (604_800_000, "7 days"),
    ],
)
def test_span_is_told_in_the_largest_unit_of_which_it_has_two(duration_ms: int, text: str) -> None:
    """Guards: a week was told as 10080 minutes."""
    assert span(duration_ms) == text


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(reason: Reason) -> None:
    """With and without the numbers that belong to it."""
    numbers = {"silent_ms": 9_100, "timeout_ms": 9_000, "failed_count": 2}

    assert "{" not in reason_in_words(reason, numbers)
    assert reason_in_words(reason, {})
