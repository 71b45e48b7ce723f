"""What Kafka's reassignment tool prints, word for word."""

from syncline.model.ids import TopicPartition
from syncline.reassign import texts
from syncline.reassign.log_dir_states import Copies, Place, report, wishes
from syncline.reassign.move_map import Running
from syncline.reassign.plan_file import Target, written

FOO_0 = TopicPartition("foo", 0)
FOO_1 = TopicPartition("foo", 1)
BAR_0 = TopicPartition("bar", 0)
WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
OFFLINE = (
    "Partition quux-2 is not found in any live log dir on broker 1. "
    "There is likely an offline log directory on the broker."
)


def test_t41_output_of_execute_is_the_tools() -> None:
    """The example of a user's terminal."""
    current = written([Target(FOO_0, (1, 2, 3))])

    assert [*texts.rollback(current), texts.MUST_VERIFY, texts.throttle_set(1_000_000), texts.started([FOO_0])] == [
        "Current partition replica assignment",
        "",
        '{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2,3],"log_dirs":["any","any","any"]}]}',
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        WARNING,
        "The inter-broker throttle limit was set to 1000000 B/s",
        "Successfully started partition reassignment for foo-0",
    ]
    assert texts.started([FOO_1, FOO_0]) == "Successfully started partition reassignments for foo-0,foo-1"


def test_t40_output_of_generate_has_two_plans() -> None:
    """The current one first."""
    assert texts.proposal("{1}", "{2}") == [
        "Current partition replica assignment",
        "{1}",
        "",
        "Proposed partition reassignment configuration",
        "{2}",
    ]


def test_t42_refusal_has_two_blanks_after_the_first_full_stop() -> None:
    """Scripts look for the whole sentence."""
    assert texts.CANNOT_EXECUTE.startswith(
        "Cannot execute because there is an existing partition assignment.  Use --additional to override this"
    )


def test_t44_states_of_targets_compare_the_order_of_replicas() -> None:
    """Done, running, other replicas, another order, an unknown topic."""
    targets = [
        Target(FOO_1, (1, 2, 4)),
        Target(FOO_0, (1, 2, 5)),
        Target(BAR_0, (1, 2, 3)),
        Target(TopicPartition("bar", 1), (1, 2)),
        Target(TopicPartition("quux", 0), (1,)),
    ]
    current = {FOO_0: (1, 2, 5, 3), FOO_1: (1, 2, 3), BAR_0: (1, 2, 3), TopicPartition("bar", 1): (2, 1)}

    assert texts.states(targets, {FOO_0: Running((1, 2, 5, 3), (5,), (3,))}, current) == [
        "Status of partition reassignment:",
        "Reassignment of partition bar-0 is completed.",
        "There is no active reassignment of partition bar-1, but replica set is 2,1 rather than 1,2.",
        "Reassignment of partition foo-0 is still in progress.",
        "There is no active reassignment of partition foo-1, but replica set is 1,2,3 rather than 1,2,4.",
        "There is no active reassignment of partition quux-0, but replica set is  rather than 1.",
    ]


def test_t44_clearing_names_brokers_and_topics() -> None:
    """One topic or several."""
    assert texts.clearing([5, 1, 3, 2], ["foo"]) == [
        "Clearing broker-level throttles on brokers 1,2,3,5",
        "Clearing topic-level throttles on topic foo",
    ]
    assert texts.clearing([1], ["b", "a"])[1] == "Clearing topic-level throttles on topics a,b"


def test_t45_cancellation_lists_partitions_sorted() -> None:
    """And says when there is nothing to cancel."""
    assert texts.cancelled([FOO_1, BAR_0]) == "Successfully cancelled partition reassignments for: bar-0,foo-1"
    assert texts.cancelled([FOO_0]) == "Successfully cancelled partition reassignment for: foo-0"
    assert texts.cancelled([]) == "None of the specified partition reassignments are active."


def test_list_shows_what_is_added_and_removed_only_if_there_is_any() -> None:
    """An increase of the replication factor removes nothing."""
    assert texts.running({}) == ["No partition reassignments found."]
    assert texts.running({FOO_1: Running((1, 2, 3), (4, 5), (1, 2)), FOO_0: Running((1, 2, 3), (3,))}) == [
        "Current partition reassignments:",
        "foo-0: replicas: 1,2,3. adding: 3.",
        "foo-1: replicas: 1,2,3. adding: 4,5. removing: 1,2.",
    ]


def test_refusals_are_one_line_each() -> None:
    """Sorted by partition."""
    assert texts.refusals("Error reassigning partition(s):", {FOO_1: "b", FOO_0: "a"}) == [
        "Error reassigning partition(s):",
        "foo-0: a",
        "foo-1: b",
    ]


def test_t47_states_of_directories() -> None:
    """All six that the tool distinguishes; what cannot be found is not done."""
    wished = {
        Place(BAR_0, 0): "/b",
        Place(FOO_0, 0): "/y",
        Place(FOO_1, 0): "/b",
        Place(TopicPartition("quux", 0), 0): "/b",
        Place(TopicPartition("quux", 2), 1): "/b",
        Place(TopicPartition("quux", 3), 1): "/b",
    }
    found = {
        Place(BAR_0, 0): Copies("/b"),
        Place(FOO_0, 0): Copies("/a", "/x"),
        Place(FOO_1, 0): Copies("/a"),
        Place(TopicPartition("quux", 3), 1): Copies("/a", "/b"),
    }

    shown = report(wished, found, offline=[1])

    assert shown.lines == [
        "Reassignment of replica bar-0-0 completed successfully.",
        "Partition foo-0 on broker 0 is being moved to log dir /x instead of /y.",
        "Partition foo-1 on broker 0 is not being moved from log dir /a to /b.",
        "Partition quux-0 cannot be found in any live log directory on broker 0.",
        OFFLINE,
        "Reassignment of replica quux-3-1 is still in progress.",
    ]
    assert not shown.is_done
    assert report({Place(BAR_0, 0): "/b"}, found).is_done
    assert wishes([Target(FOO_0, (1, 2), ("any", "/d"))]) == {Place(FOO_0, 2): "/d"}


def test_t47_start_of_moves_between_directories() -> None:
    """One line per directory and broker, and one for all that came too late."""
    assert texts.log_dirs_started("/d1", 1, [FOO_0]) == (
        "Successfully started moving log directory to /d1 for replica foo-0 with broker 1 "
    )
    assert texts.log_dirs_started("/d1", 1, [FOO_1, FOO_0]) == (
        "Successfully started moving log directory to /d1 for replicas foo-0,foo-1 with broker 1 "
    )
    assert texts.log_dirs_late([Place(FOO_0, 1)]) == (
        "Timed out before log directory move could be started for: foo-0-1"
    )
