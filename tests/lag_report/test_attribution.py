"""Which group a reader of several brokers belongs to."""

from typing import Any

from syncline.lag_report.attribution import attributed
from tests.lag_report.readings import TAIL, answer, reader


def member(group: str, client_id: str, *topics: str, host: str = "/10.0.0.7") -> dict[str, Any]:
    """Return what a coordinator says of a member."""
    return {"group": group, "client_id": client_id, "host": host, "topics": list(topics)}


def row(client_id: str, topic: str) -> dict[str, Any]:
    """Return a reader of one topic."""
    return {**reader(client_id, [[TAIL, 1, 1]]), "topic": topic}


def test_readers_belong_to_the_only_group_that_has_such_a_member() -> None:
    """Whichever broker coordinates it; with two that fit, or none, they stay clients."""
    answers = {
        1: answer(readers=[row("a", "t"), row("a", "u"), row("b", "t"), row("c", "t")]),
        2: answer(members=[member("A", "a", "t"), member("B", "b", "t"), member("C", "b", "t")]),
        3: answer(members=[member("D", "c", "t", host="10.0.0.8")]),
    }
    found = [(each["client_id"], each["topic"], each["group"]) for each in attributed(answers)[1]["readers"]]

    assert found == [("a", "t", "A"), ("a", "u", None), ("b", "t", None), ("c", "t", None)]
    assert "group" in answers[1]["readers"][0], "what was given stays"
