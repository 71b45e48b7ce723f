"""Wording of consumer lag: all phrases about groups, as templates with named fields.

Change them freely: verdicts and findings are data, and no rule reads a sentence. `lag_sentences` fills the fields in.
"""

from typing import Final

from syncline.model.lag import LagCause, StatusRule

# A group as a whole.
GROUP: Final = "Group {group} is {status}: {unread:unread record}{oldest}."
GROUP_OLDEST: Final = ", the oldest waiting for {staleness}"
GROUP_READ: Final = "Group {group} is {status}: it has read everything."
GROUP_UNKNOWN: Final = "Group {group} is {status}: its lag is not known."
INCOMPLETE: Final = "{partitions} partitions have too few commits so far to judge their status."
INCOMPLETE_ONE: Final = "{partitions} partition has too few commits so far to judge its status."
MORE: Final = "Further partitions that are not OK: {rest}."
WITHOUT_COMMITS: Final = "Partitions without a commit: {partitions}."

# The status of one partition, by the rule that decided it.
VERDICT: Final = "{partition} is {status}: {why}."
RULES: Final[dict[StatusRule, str]] = {
    StatusRule.NO_COMMITS: "no commits",
    StatusRule.INCOMPLETE: "only {commits:commit} so far, too few to judge",
    StatusRule.NO_LAG: "no more than the allowed lag, {lag:offset}",
    StatusRule.NOTHING_READABLE: "{lag:offset} left, but no readable record among them",
    StatusRule.TOO_EARLY: "its first commit is too recent to judge",
    StatusRule.STOPPED: "last commit {silent} ago, window {window}, {lag} unread{oldest}",
    StatusRule.REWOUND: (
        "its commits fell from offset {from_offset} to {to_offset} and have not returned, {lag} unread{oldest}"
    ),
    StatusRule.LAG_WAS_LOW: "{lag} unread now, and at most {least_lag} in its last {commits:commit}",
    StatusRule.STALLED: "its last {commits:commit} all have offset {offset}, {lag} unread{oldest}",
    StatusRule.LAG_NOT_FALLING: (
        "it reads, but its lag has not fallen in its last {commits:commit}{grown}, {lag} unread{oldest}"
    ),
    StatusRule.LAG_FELL: "{lag} unread, and its lag fell within its last {commits:commit}",
}
OLDEST: Final = ", oldest {staleness}"
GROWN: Final = " (from {first_lag} to {last_lag})"

# Causes.
CAUSES: Final[dict[LagCause, str]] = {
    LagCause.LOSES_DATA: "{partition} will lose data {when}: {unread:record} to read, and {speed}.{needed}",
    LagCause.NO_MEMBERS: (
        "The group has no members to read its {unread:unread record}. Its last commit was {silent} ago."
    ),
    LagCause.REBALANCING: (
        "The group has been rebalancing for {lasting}, with {members:member}: no member reads meanwhile."
    ),
    LagCause.STOPPED_COMMITTING: (
        "The reader of {partition} keeps reading but does not commit: its last commit, of offset "
        "{committed}, was {silent} ago; it now fetches from offset {fetch_offset} (last fetch {fetched} "
        "ago). After a restart, it would read the records in between again."
    ),
    LagCause.NEVER_COMMITS: (
        "The reader of {partition} has not committed yet: it fetches from offset {fetch_offset}, {fetch_lag} "
        "behind the end (last fetch {fetched} ago)."
    ),
    LagCause.STUCK_POLL: (
        "{client} on {host} is a live member but has neither fetched {partition} for {fetched} nor committed "
        "anything new, with {unread:record} waiting: it is busy processing, or stuck, or has paused the "
        "partition."
    ),
    LagCause.HELD_BACK: "A limit held {client} back for {share} of the time while it read {partition}.",
    LagCause.WATERMARK_HELD: (
        "{records:record} of {partition} cannot be read yet: its high watermark has stood still for "
        "{lasting}. `syncline why` explains it."
    ),
    LagCause.HOT_PARTITION: (
        "One hot partition: {partition} holds {share} of the lag, {unread:record}; the others have {mean} "
        "each on average."
    ),
    LagCause.PRODUCE_BURST: (
        "Producers write {produced:record}/s to {partition}, {times} times as many as usual; the group reads"
        " {consumed}."
    ),
}
LOST: Final = "The group has missed {lost:record} of {partition}, deleted unread."
WITHIN: Final = "in {margin}"
NEXT_CLEAN_UP: Final = "at the next clean-up"
NEEDS: Final = "the group needs {catch_up} to catch up"
NEVER_CATCHES_UP: Final = "at this speed the group never catches up"
SPEED_UNKNOWN: Final = "its speed is not known yet"
NEEDED: Final = " It must read at least {needed:record}/s."
TOO_LATE: Final = " No speed would be enough."
ALSO: Final = " Other partitions with the same cause: {rest}."
NOT_KNOWN: Final = "?"
