"""Calls of the control API: valid ones, and the handling of everything else."""

import json
from importlib import import_module

import pytest

from syncline.node.control.verbs import VERBS, ControlRefused, encode_answer, parse_call, perform
from tests.node.world import World


def test_call_is_a_verb_with_fields() -> None:
    """The rest of the object is the verb's fields."""
    assert parse_call(b'{"verb": "a.b", "n": 1, "t": "\xc3\xa9"}') == ("a.b", {"n": 1, "t": "\u00e9"})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(b"", "cannot be read", id="empty"),
        pytest.param(b"\xff\xfe", "cannot be read", id="no-text"),
        pytest.param(b"[" * 200_000, "cannot be read", id="deep"),
        pytest.param(b'{"verb":' * 100_000, "cannot be read", id="deep-objects"),
        pytest.param(b'{"verb": "x", "n": ' + b"9" * 5_000 + b"}", "cannot be read", id="long-number"),
        pytest.param(b'{"verb": "\\ud800"}', "cannot be read", id="half-a-letter"),
        pytest.param(b"[1, 2]", 'with a "verb"', id="list"),
        pytest.param(b"{}", 'with a "verb"', id="no-verb"),
        pytest.param(b'{"verb": 3}', 'with a "verb"', id="number"),
    ],
)
def test_what_is_no_call_is_refused(body: bytes, sentence: str) -> None:
    """No input raises another error, or produces an answer that cannot be encoded."""
    with pytest.raises(ControlRefused, match=sentence):
        parse_call(body)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_its_function(verb: str) -> None:
    """Modules of verbs are imported at their first call, by name."""
    module, name = VERBS[verb]

    assert callable(getattr(import_module(f"syncline.node.{module}"), name))


async def test_unknown_verb_is_answered_with_those_that_are(world: World) -> None:
    """The module's other names are not verbs."""
    for verb in ("x.y", "__class__", "describe"):
        answer = await perform(world.broker(), verb, {})
        assert "Known: broker.describe, " in answer["error"]
        json.loads(encode_answer(answer))


async def test_call_that_comes_too_late_is_not_carried_out(world: World) -> None:
    """The caller has reported a failure; a broker that was paused must not do it now."""
    broker = world.broker()
    now_ms = broker.clock.wall_ms()

    assert (
        "after the caller had stopped waiting"
        in (await perform(broker, "broker.describe", {"until_ms": now_ms - 1}))["error"]
    )
    assert (await perform(broker, "broker.describe", {"until_ms": now_ms + 1_000}))["error"] is None
