"""Fetch sessions (KIP-227): creation, increments, epochs, forgetting, errors."""

from typing import Any

from tests.conformance.batches import batch, sized
from tests.conformance.requests import create_topics, delete_topics, fetch, metadata, new_topic, produce
from tests.conformance.steps import Action, BrokerNumber, Pause, Saved, broker, exact, leader, sequence, topic

SESSION = Saved("session")
WAIT_MS = 300


def _full(version: int, topics: Any, **more: Any) -> Action:
    return fetch(version, topics, session_id=0, session_epoch=0, save={"session": "session_id"}, **more)


def _next(version: int, epoch: int, topics: Any = None, **more: Any) -> Action:
    more.setdefault("to", leader("t"))
    return fetch(version, topics or {}, session_id=SESSION, session_epoch=epoch, **more)


def _write(partition: int = 0, value: str = "a") -> Action:
    return produce(7, {"t": {partition: batch(value)}}, quiet=True)


@sequence(7, 12, 13, 17, t=topic((0,), (0,)))
def increments(version: int) -> list[Action]:
    """The first answer has all rows, the next ones only what changed."""
    return [
        _write(0),
        _full(version, {"t": {0: 0, 1: 0}}),
        _next(version, 1, {"t": {0: 1}}),
        _write(1, "b"),
        _next(version, 2),
        _next(version, 3, {"t": {1: 1}}),
        _next(version, 4),
    ]


@sequence(12, 17, t=topic((0,)))
def same_offset_again(version: int) -> list[Action]:
    """Without a new offset the same records come again."""
    return [_write(0), _full(version, {"t": {0: 0}}), _next(version, 1), _next(version, 2)]


@sequence(12, t=topic((0,)))
def waits(version: int) -> list[Action]:
    """An increment without changes waits."""
    return [_full(version, {"t": {0: 0}}), _next(version, 1, max_wait=WAIT_MS, waits_ms=WAIT_MS)]


@sequence(7, 12, 17, t=topic((0,)))
def wrong_epochs(version: int) -> list[Action]:
    """A wrong epoch is 71 and leaves the session as it is."""
    return [
        _full(version, {"t": {0: 0}}),
        _next(version, 2),
        _next(version, 5),
        _next(version, 1),
        _next(version, 1),
        _next(version, 2),
    ]


@sequence(7, 12, 17, t=topic((0,)))
def unknown_session(version: int) -> list[Action]:
    """An unknown session is 70, unless the request opens a new one or none."""
    return [
        fetch(version, {}, session_id=123_456, session_epoch=1, to=leader("t")),
        fetch(version, {"t": {0: 0}}, session_id=0, session_epoch=5),
        fetch(version, {"t": {0: 0}}, session_id=0, session_epoch=-2),
        fetch(version, {"t": {0: 0}}, session_id=123_456, session_epoch=-1),
        fetch(version, {"t": {0: 0}}, session_id=123_456, session_epoch=0),
    ]


@sequence(12, t=topic((0,), (1,)))
def other_broker(version: int) -> list[Action]:
    """A session lives on one broker."""
    return [_full(version, {"t": {0: 0}}), _next(version, 1, to=leader("t", 1)), _next(version, 1)]


@sequence(12, 17, t=topic((0,)))
def closing(version: int) -> list[Action]:
    """Epoch -1 answers everything and ends the session."""
    return [
        _write(0),
        _full(version, {"t": {0: 0}}),
        fetch(version, {"t": {0: 0}}, session_id=SESSION, session_epoch=-1),
        _next(version, 1),
    ]


@sequence(12, t=topic((0,)))
def replacing(version: int) -> list[Action]:
    """Epoch 0 with an id opens a new session and ends the old one."""
    return [
        _full(version, {"t": {0: 0}}),
        fetch(version, {"t": {0: 0}}, session_id=SESSION, session_epoch=0, save={"second": "session_id"}),
        _next(version, 1),
        fetch(version, {}, session_id=Saved("second"), session_epoch=1, to=leader("t")),
    ]


@sequence(12, 17, t=topic((0,)))
def other_connection(version: int) -> list[Action]:
    """A session may be used from another connection."""
    return [_write(0), _full(version, {"t": {0: 0}}), _next(version, 1, connection="other")]


@sequence(7, 12, 17, t=topic((0,), (0,)))
def forgetting(version: int) -> list[Action]:
    """Forgotten partitions are silent, and may come back."""
    return [
        _full(version, {"t": {0: 0, 1: 0}}),
        _next(version, 1, forget={"t": [0]}),
        _write(0),
        _write(1, "b"),
        _next(version, 2),
        _next(version, 3, {"t": {0: 0}}),
    ]


@sequence(12, t=topic((0,)))
def forgotten_and_listed(version: int) -> list[Action]:
    """A session that loses its only partition is closed; the request is answered without one."""
    return [
        _full(version, {"t": {0: 0}}),
        _write(0),
        _next(version, 1, {"t": {0: 0}}, forget={"t": [0]}),
        _next(version, 2),
    ]


@sequence(17, t=topic((0,), (0,)))
def forgotten_for_good(version: int) -> list[Action]:
    """The last answer covers what its request lists, also what is new there."""
    return [
        _full(version, {"t": {0: 0}}),
        _write(0),
        _write(1),
        _next(version, 1, {"t": {0: 0, 1: 0}}, forget={"t": [0, 1]}),
        _next(version, 2),
    ]


@sequence(7, 12, 17, t=topic((0,), (0,)))
def forgotten_and_listed_beside_another(version: int) -> list[Action]:
    """A partition that is listed and forgotten in one request is forgotten."""
    return [
        _full(version, {"t": {0: 0, 1: 0}}),
        _write(0),
        _next(version, 1, {"t": {0: 0}}, forget={"t": [0]}),
        _next(version, 2),
        _next(version, 3, {"t": {0: 0}}),
    ]


@sequence(12, t=topic((0,)))
def forgetting_everything(version: int) -> list[Action]:
    """A session without partitions is no session."""
    return [_full(version, {"t": {0: 0}}), _next(version, 1, forget={"t": [0]}), _next(version, 2)]


@sequence(12, 17, t=topic((0,), (0,)))
def adding(version: int) -> list[Action]:
    """A newly added partition is answered although it is empty."""
    return [_full(version, {"t": {0: 0}}), _next(version, 1, {"t": {1: 0}}), _next(version, 2)]


@sequence(12, t=topic((0,)))
def errors_repeat(version: int) -> list[Action]:
    """Every answer repeats an error; a healed partition is in one."""
    return [
        _full(version, {"t": {0: 5}}),
        _next(version, 1),
        _next(version, 2),
        _next(version, 3, {"t": {0: 0}}),
        _next(version, 4),
    ]


@sequence(12, t=topic((0,)))
def unknown_in_session(version: int) -> list[Action]:
    """An unknown topic stays in the session as an error."""
    return [_full(version, {"t": {0: 0}, exact("nope"): {0: 0}}), _next(version, 1), _next(version, 2)]


@sequence(13, t=topic((0,)))
def unknown_id_in_session(version: int) -> list[Action]:
    """An unknown id stays in the session as an error."""
    unknown = "22222222-2222-2222-2222-222222222222"
    return [_full(version, {"t": {0: 0}, exact(unknown): {0: 0}}), _next(version, 1)]


@sequence(12, t=topic((0,)))
def empty_session(version: int) -> list[Action]:
    """A session may begin with nothing."""
    return [_full(version, {}, to=leader("t")), _next(version, 1, {"t": {0: 0}}), _next(version, 2)]


@sequence(13, t=topic((0,)))
def names_in_a_session_of_ids(version: int) -> list[Action]:
    """A session speaks of names or of ids, not of both."""
    return [_full(version, {"t": {0: 0}}), fetch(12, {"t": {0: 0}}, session_id=SESSION, session_epoch=1)]


@sequence(12, t=topic((0,)))
def ids_in_a_session_of_names(version: int) -> list[Action]:
    """And the other way round."""
    return [_full(version, {"t": {0: 0}}), fetch(13, {"t": {0: 0}}, session_id=SESSION, session_epoch=1)]


@sequence(12, t=topic((0,), (0,), (0,)))
def rotation(version: int) -> list[Action]:
    """With room for one batch the partitions take turns."""
    return [
        *(produce(7, {"t": {index: sized(94)}}, quiet=True) for index in (0, 1, 2)),
        _full(version, {"t": {0: 0, 1: 0, 2: 0}}, max_bytes=1),
        *(_next(version, epoch, max_bytes=1) for epoch in (1, 2, 3, 4)),
    ]


@sequence(12, t=topic((0,)))
def high_watermark_change(version: int) -> list[Action]:
    """A moved high watermark is news even without records."""
    return [
        _full(version, {"t": {0: 0}}),
        _write(0),
        _next(version, 1, {"t": {0: 1}}),
        _next(version, 2),
    ]


@sequence(7, 12, 17, t=topic((0,), (0,), (0,), (1,)))
def errors_in_order(version: int) -> list[Action]:
    """Where errors stand beside records: unknown partitions, those that others lead, offsets out of range."""
    listed = {9: 0, 0: 0, 1: 99, 2: 0, 3: 0}
    return [
        *(_write(index) for index in (0, 2)),
        _full(version, {"t": listed}, to=leader("t")),
        _next(version, 1),
        _next(version, 2, {"t": {0: 1}}),
        _write(0, "b"),
        _next(version, 3),
        _next(version, 4, {"t": {1: 0, 2: 1}}),
        _next(version, 5),
    ]


@sequence(7, 12, 13, 17, t=topic((0,), (0,)), u=topic((0,), (1,)))
def errors_of_several_topics(version: int) -> list[Action]:
    """Topics stand in the order of their partitions, and one whose partitions lie apart stands there twice."""
    missing = "33333333-3333-3333-3333-333333333333"
    listed = [(exact(missing if version >= 13 else "nope"), {0: 0}), ("u", {1: 0}), ("t", {0: 0, 1: 99}), ("u", {0: 0})]
    return [
        _write(0),
        produce(7, {"u": {0: batch("a")}}, quiet=True),
        _full(version, listed, to=leader("t"), in_order=True),
        _next(version, 1, in_order=True),
        _next(version, 2, {"t": {0: 1}}, in_order=True),
        _write(0, "b"),
        _next(version, 3, in_order=True),
        _next(version, 4, in_order=True),
        fetch(version, listed, to=leader("t"), session_id=0, session_epoch=-1, in_order=True),
    ]


@sequence(12, 13, 17, t=topic((0,), (0,)), u=topic((0,), (1,), (1,), (0,)))
def topic_that_comes_back(version: int) -> list[Action]:
    """A session knows the names of its topics, also where it never found the partition: 3 while one is gone.

    When another topic has the name, a partition that is here is inconsistent (103), one elsewhere is elsewhere (6).
    """
    missing = "33333333-3333-3333-3333-333333333333"
    unknown = [(exact(missing if version >= 13 else "nope"), {0: 0})]
    rows = [(index, [BrokerNumber(rank)]) for index, rank in enumerate((0, 0, 1, 1))]
    return [
        _write(0),
        _full(version, {"u": {0: 0, 1: 0, 2: 0, 3: 0, 9: 0}, "t": {0: 0}}, to=leader("t"), in_order=True),
        delete_topics(5, "u", quiet=True),
        *(metadata(9, ["u"], to=broker(rank), settle={"topics.0.error_code": 3}, quiet=True) for rank in (0, 1)),
        Pause(50),
        _next(version, 1, {"t": {0: 1}}, in_order=True),
        _next(version, 2, unknown, in_order=True),
        create_topics(5, new_topic("u", assignments=rows), quiet=True),
        *(
            metadata(
                9,
                ["u"],
                to=broker(rank),
                settle={f"topics.0.partitions.{each}.error_code": 0 for each in range(4)},
                quiet=True,
            )
            for rank in (0, 1)
        ),
        Pause(400),
        _next(version, 3, in_order=True),
        _next(version, 4, in_order=True),
    ]


@sequence(12, 17, t=topic((0,)), u=topic((0,)))
def order_of_the_first_answer(version: int) -> list[Action]:
    """A new session serves its partitions in the order of its first answer, in which unknown ones are the last."""
    return [
        _full(version, {"u": {9: 0, 0: 0}, "t": {0: 0}}, to=leader("t"), in_order=True),
        delete_topics(5, "u", quiet=True),
        metadata(9, ["u"], settle={"topics.0.error_code": 3}, quiet=True),
        Pause(50),
        _next(version, 1, in_order=True),
    ]
