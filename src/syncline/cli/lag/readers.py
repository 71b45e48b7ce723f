"""`lag --readers`: who fetches which partition from where, with a group or without, as the brokers know that serve it.

The brokers that coordinate groups know whose members may read what. A reader is shown with a group if it fits one
member of all groups; two programs with one name, or several members that fit, are shown without.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from syncline.cli.lag.answers import UNKNOWN, duration, number, pages_of
from syncline.cli.screen import print_table, say
from syncline.cli.target import counted, nobody_answers
from syncline.core.lag.readers import MemberAssignment, ReaderKey, attribute
from syncline.model.ids import TopicPartition
from syncline.model.shown_names import shown_name

COLUMNS: Final = ("CLIENT", "HOST", "TOPIC", "PARTITION", "POSITION", "END", "TO-FETCH", "FETCHED", "GROUP", "NOTE")
# A reader of a follower, or of two brokers after an election, is on several: the latest fetch counts.
_NAME: Final = ("client_id", "host", "topic", "partition")


def readers_of(brokers: Mapping[int, Any]) -> dict[str, Any]:
    """Return the readers of all brokers that answer, and an error message for each that does not."""
    from syncline.local.control import answers_of_all

    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    members: list[MemberAssignment] = []
    answers, silent = answers_of_all(brokers, partial(pages_of, verb="lag.readers"))
    for broker_id, pages in answers.items():
        for page in pages:
            members += map(_member, page["members"])
            for each in page["readers"]:
                name = tuple(each[field] for field in _NAME)
                if name not in found or each["fetched_ago_ms"] < found[name]["fetched_ago_ms"]:
                    found[name] = {"broker": broker_id, **each}
    if len(silent) == len(brokers):
        raise nobody_answers(silent)
    keys = {_key(each): each for each in found.values()}
    attributed = attribute([key for key, each in keys.items() if not each["is_shared"]], members)
    for key, each in keys.items():
        member = attributed.get(key)
        each["group"] = None if member is None else member.group_id
    rows = sorted(keys.values(), key=lambda each: (each["topic"], each["partition"], each["client_id"], each["host"]))
    return {"readers": rows, "silent": silent}


def _key(reader: Mapping[str, Any]) -> ReaderKey:
    return ReaderKey(reader["client_id"], reader["host"], TopicPartition(reader["topic"], reader["partition"]))


def _member(fields: Mapping[str, Any]) -> MemberAssignment:
    partitions = frozenset(TopicPartition(topic, each) for topic, some in fields["topics"].items() for each in some)
    return MemberAssignment(fields["group"], fields["member"], fields["client_id"], fields["host"], partitions)


def show_readers(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Print readers as a table, or as JSON."""
    if as_json:
        print(json.dumps(found))
        return
    connected = [each for each in found["readers"] if each["is_connected"]]
    gone_count = len(found["readers"]) - len(connected)
    if connected:
        print_table(list(COLUMNS), [_cells(each) for each in connected])
    elif not found["silent"]:
        say("no readers")
    if gone_count:
        say("", f"{counted(gone_count, 'position')} of disconnected clients not shown: --json includes them.")
    for sentence in found["silent"].values():
        say("", sentence)
    if found["silent"]:
        say(
            "",
            f"Any readers served by {counted(len(found['silent']), 'broker')} that did not answer are missing.",
        )


def _cells(row: Mapping[str, Any]) -> list[Any]:
    notes = [
        ("several clients with this name", row["is_shared"]),
        (f"from a follower, broker {row['broker']}", not row["is_leader"]),
        (f"held back {row['held_back_share']:.0%} of the time".replace("%", " %"), row["held_back_share"] >= 0.01),
    ]
    return [
        shown_name(row["client_id"]) or UNKNOWN,
        row["host"],
        row["topic"],
        row["partition"],
        number(row["position"]),
        number(row["end"]),
        number(row["lag"]),
        f"{duration(row['fetched_ago_ms'])} ago",
        shown_name(row["group"] or "") or UNKNOWN,
        ", ".join(text for text, is_so in notes if is_so),
    ]
