"""Wording: all phrases of explanations, as templates with named fields.

Change them freely: findings rest on data, and a test replaces all phrases by nonsense and compares the findings.
Fields are in braces; `phrases`, `evidence` and `sentences` fill them in.
"""

from typing import Final

from syncline.explain.diagnosis.condition import Kind
from syncline.explain.diagnosis.findings import Cause
from syncline.model.reasons import Reason

# Why the controller decided something.
REASONS: Final[dict[Reason, str]] = {
    Reason.REGISTERED: "the broker registered for the first time",
    Reason.REGISTERED_AGAIN: "the same process registered again",
    Reason.REGISTERED_AFTER_CLEAN_STOP: "the broker registered after a clean stop",
    Reason.REGISTERED_WITHOUT_PROOF: "the broker registered without proof of a clean stop",
    Reason.BOUNCED: "a new process replaced the old one",
    Reason.CAUGHT_UP_WITH_METADATA: "the broker has applied the metadata and may serve",
    Reason.SESSION_TIMED_OUT: "no heartbeat for {silent}, longer than the session timeout of {timeout}",
    Reason.PROCESS_GONE: "its process is gone: its connection broke and its listener refuses new ones",
    Reason.LEASE_HOLDER_SILENT: "it was silent while it held the controller's lease",
    Reason.ASKED_TO_BE_FENCED: "the broker asked to be fenced",
    Reason.STOP_ANNOUNCED: "the broker announced its shutdown",
    Reason.STOP_GRANTED: "the broker announced its shutdown",
    Reason.STOPPED_TOGETHER: "all brokers stopped together",
    Reason.LOGS_FAILED: "logs of the broker failed, {failed} in all",
    Reason.LOGS_HEALED: "the broker can serve failed logs again; {failed} are still failed",
    Reason.DISK_FULL: "the broker's disk is full",
    Reason.NO_DESCRIPTORS: "the broker has no file descriptors left",
    Reason.LOGS_DAMAGED: "logs of the broker are damaged",
    Reason.DISK_WRITABLE: "the broker's disk accepts writes again",
    Reason.CREATED: "the partition was created",
    Reason.DELETED: "the topic was deleted",
    Reason.PROPOSED_BY_LEADER: "the leader proposed it",
    Reason.RELINQUISHED: "its leader handed it over",
    Reason.PREFERRED_REPLICA_BACK: "the preferred leader is back in the ISR",
    Reason.PREFERRED_REQUESTED: "an administrator requested the preferred leader",
    Reason.UNCLEAN_REQUESTED: "an administrator requested an unclean election",
    Reason.UNCLEAN_ALLOWED: "the topic allows unclean elections",
    Reason.REASSIGNMENT_REQUESTED: "an administrator requested other replicas",
    Reason.REASSIGNMENT_CANCELLED: "an administrator cancelled the reassignment of its replicas",
    Reason.REASSIGNMENT_COMPLETED: "the reassignment of its replicas was complete",
    Reason.MEMBER_ABSENT: "not all of its in-sync replicas came back in time",
    Reason.CONTROLLER_TOOK_OVER: "a new controller took over",
    Reason.CONFIGS_ALTERED: "configurations were altered",
    Reason.PRODUCER_IDS_ALLOCATED: "a broker needed producer ids",
    Reason.UNKNOWN: "not recorded",
}

# Causes.
TITLES: Final[dict[Cause, str]] = {
    Cause.FOLLOWER_DEAD: "the follower's process died",
    Cause.LEADER_DEAD: "the leader's process died",
    Cause.STOPPED: "the broker stopped cleanly",
    Cause.FOLLOWER_PAUSED: "the follower's process was paused",
    Cause.LEADER_PAUSED: "the leader's process was paused",
    Cause.FOLLOWER_DISK: "the follower's disk was slow",
    Cause.LEADER_DISK: "the leader's disk was slow",
    Cause.CUT_BOTH_WAYS: "the network between two brokers was cut in both directions",
    Cause.CUT_ONE_WAY: "the network between two brokers was cut in one direction",
    Cause.BURST: "clients wrote a burst, faster than healthy followers could fetch",
    Cause.NEW_REPLICA: "a replica started with an empty log and had to catch up",
    Cause.CONTROLLER: "a broker could not reach the controller",
    Cause.FENCED_ALIVE: "the controller fenced a broker that was alive",
    Cause.METADATA_LATE: "a broker applied the metadata late",
    Cause.DISK_FULL: "the broker's disk was full",
    Cause.NO_DESCRIPTORS: "the broker had no file descriptors left",
    Cause.DISK_FAILED: "the broker's disk failed",
    Cause.LOG_DAMAGED: "the broker's log was damaged",
    Cause.THROTTLED: "a throttle held the replica back",
    Cause.STARVED: "another move used up the throttle's rate",
    Cause.UNKNOWN: "unknown",
}
TITLE_OF_BROKER: Final = "{title} (broker {broker})"
TITLE_OF_CUT: Final = "{title}: {directions}"
ONE_DIRECTION: Final = "nothing arrives from broker {source} at broker {target}"
BOTH_DIRECTIONS: Final = "between brokers {one} and {other}"

# Paragraphs.
NOTHING_HAPPENED: Final = (
    "Nothing happened to {partition} {since}: its ISR and its leader did not change, and no broker noticed anything "
    "unusual about its replicas."
)
SINCE_CREATION: Final = "since it was created at {created}"
BETWEEN: Final = "between {begin} and {end}"
CAUSE: Final = "Cause: {title}."
CAUSE_UNKNOWN: Final = "The cause is unknown: no broker reported anything that would explain it."
MAIN_CAUSE: Final = "Main cause: {title}."
MAIN_CAUSE_UNKNOWN: Final = "The main cause is unknown: no broker reported anything that would explain it."
BESIDES: Final = "Other causes: {titles}."

# A replica left.
LEFT: Final = "Replica {replica} left the ISR of {partition} at {at}"
LEFT_IN_ELECTION: Final = "{left}: the controller elected {elected}, outside the ISR ({reason})."
LEFT_REASSIGNED: Final = "{left}: it is no longer a replica ({reason})."
LEFT_STOPPING: Final = "{left}: it announced its shutdown to controller {controller}."
LEFT_UNFIT: Final = "{left}: controller {controller} removed it ({reason})."
LEFT_ABSENT: Final = "{left}: its broker was not serving yet when controller {controller} elected a leader."
LEFT_FENCED: Final = "{left}: controller {controller} fenced it ({reason})."
LEFT_BEHIND: Final = "{left}: it was {behind} records behind, more than replica.lag.max.messages {most}."
LEFT_LATE: Final = (
    "{left}: {proposed}it was last caught up at {caught_up}, {before} earlier, more than "
    "replica.lag.time.max.ms {window}."
)
LEFT_NEVER_CAUGHT_UP: Final = (
    "{left}: it never caught up with this leader, for more than replica.lag.time.max.ms {window}."
)
LEFT_BY_RULE: Final = "{left} by rule {rule}."
PROPOSED_EARLIER: Final = "the leader proposed it at {decided}; "
FETCHED_LATER: Final = (
    "It fetched again at {asked}, after the leader had decided this but before the controller agreed."
)
FETCH_WAITED_FOR_DISK: Final = "It did fetch: its fetch at {asked} had waited {waited} for this leader's disk."
PROTECTION_OFF: Final = "KIP-501 protection is off; with it, the replica would have stayed."
FETCH_UNANSWERED: Final = "It did fetch: its fetch at {asked} was not answered yet."
LAST_FETCH: Final = "Its last fetch arrived at {asked}, {before} earlier."
NO_FETCH: Final = "Leader {leader} had received no fetch from it."

# Other changes of the ISR.
JOINED: Final = "Replica {replica} joined the ISR of {partition} at {at}: {why}."
HAD_EVERYTHING: Final = "it had every committed record{numbers}"
ENDS: Final = " (log end {log_end}, high watermark {high_watermark})"
WAS_ELECTED: Final = "the controller elected it, although it may lack committed records"
BY_RULE: Final = "{rule}"
REFUSED: Final = (
    "The controller refused leader {leader}'s proposal to change the ISR of {partition} from {before} to "
    "{after} at {at}: {error}; the proposal named leader epoch {leader_epoch}, partition epoch "
    "{partition_epoch}."
)
AN_ERROR: Final = "an error"
GIVEN_AWAY: Final = (
    "Leader {leader} handed {partition} over at {at}, because it served its followers too slowly{served} "
    "({rule}, {outcome})."
)
SERVED: Final = ": a fetch{whose} had taken {took}, more than follower.fetch.process.time.max.ms {most}"
OF_REPLICA: Final = " of replica {replica}"
SPARED: Final = (
    "Replica {replica} stayed in the ISR of {partition} from {at}{until} only because leader {leader} had not answered "
    "its fetch (KIP-501)."
)
UNTIL: Final = " until {end}"

# Logs, leaders and watermarks.
TRUNCATED: Final = (
    "Replica {replica} truncated its log of {partition} from offset {end_before} back to {end_after} at "
    "{at}, because leader {leader} has a different history from there on ({rule}{epoch_end})."
)
EPOCH_END: Final = ": there, epoch {epoch} ends at {end}"
REASSIGNED: Final = {
    "started": "A reassignment of {partition} from replicas {original} to {target} started at {at}",
    "changed": "The reassignment of {partition} from replicas {original} was redirected to {target} at {at}",
    "completed": "The reassignment of {partition} from replicas {original} to {replicas} was completed at {at}",
    "cancelled": "The reassignment of {partition} from replicas {original} ended at {at} before it was complete",
}
DELETED: Final = "Topic {topic} was deleted at {at}, with all its records; everything before is about that topic."
ADDED: Final = "; to catch up first: {brokers}"
REMOVED: Final = "; to be removed then: {brokers}"
OF_MOVE: Final = " (move {move})"
REASSIGNMENT: Final = "{what}{lists}{move}."
LEADERLESS: Final = "{partition} lost its leader at {at} (previously broker {before})"
ELECTED: Final = "Broker {leader} became leader of {partition} at {at} {before}, epoch {epoch}"
IN_PLACE_OF: Final = "in place of broker {before}"
AFTER_NONE: Final = "after a time without a leader"
ELECTION: Final = "{elected}. The controller's reason: {reason}.{unclean}"
UNCLEAN: Final = " The election was unclean: records may have been lost."
HELD: Final = (
    "The high watermark of {partition} stayed at {high_watermark} from {since}{until} with {waiting} records above it: "
    "{why}."
)
HELD_BY_MIN_ISR: Final = "the ISR is smaller than min.insync.replicas{sizes}"
SIZES: Final = ": {size} of {least}"
HELD_BY_MEMBERS: Final = "it waited for {replicas} in the ISR"
HELD_BY_JOINERS: Final = "it waited for {replicas} about to join the ISR"
REPLICA: Final = "replica {listed}"
REPLICAS: Final = "replicas {listed}"
UNKNOWN_REPLICAS: Final = "unknown replicas"
HELD_BACK: Final = "Replica {replica} of {partition} was held back at {at}: a quota limits how fast it copies."
HELD_BACK_REPEATEDLY: Final = (
    "Between {begin} and {end}, replica {replica} of {partition} was held back {times} times: a quota limits "
    "how fast it copies."
)
# Clients may well have noticed it: a paused leader takes no writes.
NO_EFFECT: Final = "At {at}, something was unusual. It changed neither the ISR nor the leader of {partition}."
NO_EFFECT_REPEATEDLY: Final = (
    "Between {begin} and {end}, something was unusual {times} times. It changed neither the ISR nor the leader of "
    "{partition}."
)

# Evidence for a cause.
LONGEST: Final = "The longest one lasted {lasted}."
STILL: Final = ", and this was not over at the last report"
REFUSED_WRITES: Final = (
    "Broker {broker}'s disk refused {refused} writes from {begin} to {end}, the last one for {on} with {errno}{still}."
)
DAMAGED: Final = "Broker {broker} found its log damaged at {begin}: {reason}."
DISK_FAILED: Final = "Broker {broker}'s disk failed at {begin}: {error}."
REPORTED_UNFIT: Final = (
    "Broker {broker} reported this to the controller at {begin}, but its own report is missing from the journal."
)
GONE: Final = "Broker {broker}'s process ended at {begin}: its connections broke and its port refused new ones{back}."
NEXT_PROCESS: Final = "; its next process registered at {end}"
NO_NEXT_PROCESS: Final = "; no other process has registered since"
STOPPED: Final = "Broker {broker} announced its shutdown at {begin}."
STOPPED_BEFORE: Final = "Broker {broker} had stopped cleanly, and its next process registered at {end}."
# By what a pause is inferred from.
PAUSES_INFERRED: Final[dict[object, str]] = {
    "heartbeats": (
        "Since {begin}, neither the controller nor other replicas have received anything from broker {broker}."
    ),
    "controller": "Since {begin}, other brokers have received nothing from broker {broker}, which was the controller.",
    "lease": (
        "Broker {broker}, which was the controller, did not renew its lease, and other brokers have received nothing "
        "from it since {begin}."
    ),
}
REPORT_IS_MISSING: Final = "Its process is not known to be gone, and its own report has not arrived yet."
PAUSE_REPORTED: Final = (
    "Broker {broker} itself reports that its event loop did not run from {begin} to {end} ({lasted}), and "
    "that its disk was not the reason."
)
DISK: Final = "Broker {broker} waited for its disk from {begin} to {end}: {operations}{still}."
OPERATION: Final = "a {operation} of {partition}{whose} took {longest}"
FOR_FETCH: Final = " for replica {replica}'s fetch"
CUT: Final = (
    "Brokers {one} and {other} received nothing from each other from {begin} to {end} ({lasted}), although "
    "both were running."
)
BEATS_ARRIVED: Final = "Broker {target} received {beats} of broker {source}'s beats."
NO_BEATS_ARRIVED: Final = "None of broker {source}'s beats reached broker {target}."
SILENT: Final = (
    "Broker {other} received nothing from broker {broker} from {begin} to {end}, and broker {broker} reported nothing "
    "about it."
)
UNREACHABLE: Final = "Broker {broker} got no answer from controller {other} from {begin} to {end} ({lasted}){still}."
WENT_ON_FETCHING: Final = "Meanwhile, it kept fetching from leader {leader}, which noticed no gap."
LATE: Final = (
    "Broker {broker} did not apply the metadata committed at {begin} until {end} ({lasted}){still}; it was "
    "at version {applied} of {committed}{contact}."
)
KEPT_HEARTBEATING: Final = ", and kept sending heartbeats"
WAS_SILENT: Final = ", and once sent no heartbeat for {silent}"
FRESH: Final = (
    "Broker {broker} started at {begin} with an empty log and reached offset {log_end}{leader_end} at {end} "
    "({lasted}{rate}){still}."
)
OF_LEADER_END: Final = " of {leader_end}"
AT_RATE: Final = ", {rate} records/s"
FILLING: Final = "Broker {broker} was filling an empty log from {begin} to {end} ({lasted}){still}."
BURST: Final = (
    "Clients wrote up to {records} records in one interval between {begin} and {end}{usual}; all brokers were healthy."
)
THROTTLED: Final = (
    "Broker {by} {does} at most {quota} bytes per second {for_what} ({mode} quota), of which {rate} were "
    "used; the quota held {held} back, this one from {begin} to {end} ({lasted}){still}."
)
TAKEN: Final = (
    "Of {taken} bytes transferred while it waited, {neighbours} went to replicas that {whose} adding, most "
    "of them to the replica of {neighbour} on broker {receiver}: give that move its own throttle below the "
    "rate, or raise the rate."
)
OTHER_MOVE: Final = "move {move} is"
OTHER_MOVES: Final = "other moves are"
HELD_ONE: Final = "1 replica"
HELD_MANY: Final = "{held} replicas"
SENDS: Final = "sends"
RECEIVES: Final = "fetches"
FOR_LISTED: Final = "for the replicas in throttle lists"
FOR_MOVE: Final = "for move {move}"
USUALLY: Final = ", usually {records}"

# Evidence against other causes.
KINDS: Final[dict[Kind, str]] = {
    Kind.FAILED: "disk failed",
    Kind.DAMAGED: "log damaged",
    Kind.FULL: "disk full",
    Kind.DESCRIPTORS: "no descriptors",
    Kind.GONE: "process gone",
    Kind.STOPPED: "stopped cleanly",
    Kind.STALL: "process paused",
    Kind.DISK: "disk slow",
    Kind.CUT: "connection cut",
    Kind.SILENT: "silent",
    Kind.UNREACHABLE: "controller unreachable",
    Kind.LATE: "metadata late",
    Kind.FRESH: "filling an empty log",
    Kind.BURST: "burst of writes",
    Kind.THROTTLED: "held back by a throttle",
}
ALSO: Final = "Also at that time: {condition}."
CONDITION: Final = "{kind} ({who}), from {begin}{end}"
OF_BROKER: Final = "broker {broker}"
UP_TO: Final = " to {end}"
STILL_ON: Final = " on"
NOTHING_ELSE: Final = "Otherwise, {where} at that time, {listed}, as far as brokers reported."
ON_BROKER: Final = "on broker {brokers}"
ON_BROKERS: Final = "on brokers {brokers}"
# What did not happen, of those conditions that explain most effects.
ABSENT: Final[dict[Kind, str]] = {
    Kind.GONE: "no process died",
    Kind.STALL: "no process was paused",
    Kind.DISK: "no disk was slow",
    Kind.CUT: "no connection between them was cut",
}

# Numbers and lists.
MILLISECONDS: Final = "{number} ms"
SECONDS: Final = "{number} s"
MINUTES: Final = "{number} min"
HOURS: Final = "{number} h"
DAYS: Final = "{number} days"
UNKNOWN_NUMBER: Final = "?"
LIST: Final = "{all_but_last} and {last}"
