"""The JSON files of Kafka's reassignment tool."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.reassign.errors import PlanError
from syncline.reassign.plan_file import Target, parse_brokers, parse_plan, parse_topics, written

FOO_0 = TopicPartition("foo", 0)


def plan(*rows: dict[str, object], **more: object) -> str:
    """Return a file with these partitions."""
    return json.dumps({"version": 1, "partitions": list(rows), **more})


def row(topic: str = "foo", partition: int = 0, replicas: object = (1, 2, 3), **more: object) -> dict[str, object]:
    """Return one partition of a file."""
    return {"topic": topic, "partition": partition, "replicas": replicas, **more}


def test_t41_file_is_written_in_one_line_and_sorted() -> None:
    """Keys, order and blanks are the tool's; a replica without a directory has "any"."""
    text = written(
        [
            Target(TopicPartition("foo", 10), (3, 1)),
            Target(TopicPartition("foo", 2), (1, 2), ("any", "/d1")),
            Target(TopicPartition("bar", 0), (2,)),
        ]
    )

    assert text == (
        '{"version":1,"partitions":['
        '{"topic":"bar","partition":0,"replicas":[2],"log_dirs":["any"]},'
        '{"topic":"foo","partition":2,"replicas":[1,2],"log_dirs":["any","/d1"]},'
        '{"topic":"foo","partition":10,"replicas":[3,1],"log_dirs":["any","any"]}]}'
    )


def test_version_and_directories_may_be_missing() -> None:
    """The order of the file and of the replicas is kept."""
    text = '{"partitions":[{"topic":"b","partition":1,"replicas":[3,1]},{"topic":"a","partition":0,"replicas":[2]}]}'

    assert parse_plan(text) == [
        Target(TopicPartition("b", 1), (3, 1), ("any", "any")),
        Target(TopicPartition("a", 0), (2,), ("any",)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(plan(), "Partition reassignment list cannot be empty", id="no-partitions"),
        pytest.param('{"version":1}', "Partition reassignment list cannot be empty", id="no-list"),
        pytest.param(plan(row(replicas=[])), "Partition replica list cannot be empty", id="no-replicas"),
        pytest.param(
            plan(row(), row(replicas=[2])),
            "Partition reassignment contains duplicate topic partitions: foo-0",
            id="same-partition",
        ),
        pytest.param(
            plan(row(replicas=[0, 0, 1]), row("bar", 3, [2, 2])),
            "Partition replica lists may not contain duplicate entries: foo-0 contains multiple entries for 0. "
            "bar-3 contains multiple entries for 2",
            id="same-broker",
        ),
        pytest.param(
            plan(row(replicas=[1, 2], log_dirs=["any"])),
            "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition foo-0",
            id="directories",
        ),
        pytest.param(plan(row(), version=2), "Not supported version field value 2", id="version"),
    ],
)
def test_t43_bad_file_is_refused_with_the_tools_message(text: str, message: str) -> None:
    """Scripts compare these messages."""
    with pytest.raises(PlanError) as caught:
        parse_plan(text)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{", ("p.json, line 1, column 2", "Expecting property name"), id="ends"),
        pytest.param('{"partitions":\n[,]}', ("p.json, line 2, column 2",), id="second-line"),
        pytest.param("[]", ("p.json", "a list", '"partitions"'), id="list"),
        pytest.param("null", ("p.json", "null", '"partitions"'), id="null"),
        pytest.param("9" * 5_000, ("p.json", "digits"), id="huge"),
        pytest.param("[" * 100_000, ("p.json", "nested"), id="deep"),
    ],
)
def test_t43_what_is_no_plan_is_told_after_the_tools_message(text: str, told: tuple[str, ...]) -> None:
    """Which file, where in it, and what is expected instead."""
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "p.json")

    assert str(caught.value).startswith("The input string is not a valid JSON")
    assert all(each in str(caught.value) for each in told)


@pytest.mark.parametrize(
    "text",
    [
        plan(row(replicas="123")),
        plan(row(replicas=[1, "2"])),
        plan(row(replicas=[1, True])),
        plan(row(replicas=[-1])),
        plan(row(replicas=[1 << 31])),
        plan(row(partition=-1)),
        plan(row(log_dirs=["any", "d1", "any"])),
        plan({"partition": 0, "replicas": [1]}),
        *(plan(row(replicas=each)) for each in ({}, None, [1.5], [[1]], [1, 1])),
        *(plan(row(partition=each)) for each in (1.0, True, "0", None, [], 1 << 31, float("inf"))),
        *(plan(row(log_dirs=each)) for each in ({}, [1, 2, 3], ["any"], ["/\ud800", "any", "any"])),
        plan(row(log_dirs=["/" + "d" * 5_000, "any", "any"])),
        *(plan(row(topic=each)) for each in ("\ud800", "a\0b", "a b", "x" * 40_000, 7)),
        *('{"partitions":' + each + "}" for each in ("[7]", "[null]", "[{}]", "{}", "7")),
        *('{"version":' + each + ',"partitions":[]}' for each in ("{}", "1e400", "NaN", "9" * 5_000)),
        *("", " ", "[]", "null", "7", '"x"', "{", "\ufeff{}", "[" * 100_000),
        '{"partitions":[' + "[" * 900 + "]" * 900 + "]}",
        '{"partitions":[{"topic":' + '{"a":' * 900 + "1" + "}" * 900 + "}]}",
    ],
    ids=lambda text: text[:60],
)
def test_t43_nonsense_is_refused_in_one_sentence(text: str) -> None:
    """No file makes the command fail with a traceback, or print what a terminal obeys."""
    with pytest.raises(PlanError) as caught:
        parse_plan(text)

    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_t40_topics_file_names_topics_once() -> None:
    """Its order is kept; doubles and other files are refused."""
    assert parse_topics('{"version":1,"topics":[{"topic":"foo"},{"topic":"bar"}]}') == ["foo", "bar"]
    with pytest.raises(PlanError, match=r"^List of topics to reassign contains duplicate entries: \[foo\]$"):
        parse_topics('{"topics":[{"topic":"foo"},{"topic":"foo"}]}')
    with pytest.raises(PlanError, match=r"^The input string is not a valid JSON: t.json, line 1"):
        parse_topics("foo", "t.json")


def test_t40_broker_list_names_brokers_once() -> None:
    """Blanks are allowed; doubles and other texts are refused."""
    assert parse_brokers("2, 0,1") == [2, 0, 1]
    with pytest.raises(PlanError, match=r"^Broker list contains duplicate entries: \[1\]$"):
        parse_brokers("1,2,1")
    for text in ("1,,2", "", "-1", "1," + "9" * 5_000, "2147483648", "１", "\ud800"):
        with pytest.raises(PlanError, match="broker ids separated by commas"):
            parse_brokers(text)


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text("abc.-_", min_size=1), st.integers(0, 2**31 - 1)),
        st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True).map(tuple),
        min_size=1,
    )
)
def test_what_is_written_is_read_back(replicas: dict[TopicPartition, tuple[int, ...]]) -> None:
    """A rollback file that was saved can be executed."""
    targets = [Target(key, brokers, ("any",) * len(brokers)) for key, brokers in sorted(replicas.items())]

    assert parse_plan(written(targets)) == targets
