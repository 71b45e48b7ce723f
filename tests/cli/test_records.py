"""`produce` and `consume`: records come out as they went in; an error names the line of a bad record."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from syncline.records.batch import BatchHeader, iterate
from tests.cli.terminal import ENVIRONMENT, as_json, command, messages, records, refusal, refused, run, succeed
from tests.cluster import LocalCluster
from tests.patience import until

pytestmark = pytest.mark.process


def put(topic: str, *arguments: str, given: str | bytes = b"") -> None:
    """Produce without idempotence, which saves half a second per test."""
    succeed("produce", topic, "--acks", "1", *arguments, given=given)


def values(*arguments: str) -> list[str]:
    """Return what `consume --until end` prints, in the order of the values."""
    return sorted(succeed("consume", *arguments, "--until", "end").splitlines())


def test_lines_come_back(topic: str, at: tuple[str, str]) -> None:
    """A record per line; the count of acknowledged records goes to standard error."""
    ran = run("produce", topic, *at, given="one\ntwo\r\nthree")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "3 records acknowledged\n")
    assert values(topic, *at) == ["one", "three", "two"]
    assert as_json("produce", topic, *at, given="") == {"topic": topic, "records": 0}


def test_keys_and_headers_come_back(topic: str, at: tuple[str, str]) -> None:
    """Keys before the separator, headers on every record."""
    put(topic, "-k", ":", "-H", "from=test", "-H", "empty=", *at, given="k1:v1\nk2:a:b\n")
    assert values(topic, "--keys", *at) == ["k1\tv1", "k2\ta:b"]
    shown = sorted(records(topic, "--until", "end", *at), key=lambda record: record["key"])
    assert [(record["key"], record["value"]) for record in shown] == [("k1", "v1"), ("k2", "a:b")]
    assert shown[0]["headers"] == {"from": "test", "empty": ""}


def test_json_of_one_topic_is_input_for_another(make_topic: Callable[..., str], at: tuple[str, str]) -> None:
    """`produce --json-input` accepts the output of `consume --json`: nulls, timestamps, repeated headers."""
    first, second = make_topic(), make_topic()
    lines = (
        '{"key": "k", "value": {"x": 1}, "headers": [["h", "1"], ["h", null]], "timestamp": 1000}\n'
        '{"key": "k", "value": null}\n'
    )
    put(first, "--json-input", *at, given=lines)
    copy = succeed("consume", first, "--until", "end", "--json", *at)
    put(second, "--json-input", *at, given=copy)
    original, copied = (records(each, "--until", "end", *at) for each in (first, second))
    assert [{**record, "topic": ""} for record in original] == [{**record, "topic": ""} for record in copied]
    assert original[0]["headers"] == [["h", "1"], ["h", None]]
    assert (original[0]["timestamp"], original[1]["value"]) == (1000, None)


def test_bytes_that_are_no_text_pass_unchanged(make_topic: Callable[..., str], at: tuple[str, str]) -> None:
    """Into a pipe, lines are the bytes of the records; JSON escapes what is not UTF-8."""
    topic = make_topic()
    binary = bytes(byte for byte in range(256) if byte not in b"\n\r")
    put(topic, *at, given=binary + b"\n\x00\n")
    ran = subprocess.run(
        command("consume", topic, "--until", "end", *at), env=ENVIRONMENT, capture_output=True, check=True
    )
    assert ran.stdout == binary + b"\n\x00\n"
    assert "\\xff" in records(topic, "--until", "end", *at)[0]["value"]


@pytest.mark.parametrize(
    ("options", "lines", "complaint"),
    [
        (("-k", ":"), "a:b\nnone\n", "line 2 has no separator ':'. 1 record before that acknowledged."),
        (("-k", ""), "a:b\n", "--key-separator takes one character or more, not ''."),
        (("-k", ":", "--json-input"), "{}\n", "leave out --key-separator."),
        (("--json-input",), "{\n", "line 1 is not JSON"),
        (("--json-input",), "[" * 100_000, "line 1 is not JSON"),
        (("--json-input",), "[]", "line 1 is not a JSON object"),
        (("--json-input",), '{"vlaue": 1}', "line 1 has an unknown field 'vlaue'"),
        (("--json-input",), '{"partition": 9}', "has partitions 0 to 1, not 9"),
        (("--json-input",), '{"timestamp": -1}', "timestamp must be an integer of at least 0"),
        (("--json-input",), '{"headers": 1}', "headers must be an object"),
        (("--json-input",), '{"value": "\\ud800"}', "line 1 is not text"),
        (("-p", "9"), "x", "has partitions 0 to 1, not 9"),
        (("--acks", "7"), "x", "--acks takes all, -1, 1, 0"),
        (("--compression", "rar"), "x", "--compression takes none, gzip"),
        (("-H", "x"), "x", "--header takes NAME=VALUE"),
        ((), "x" * 2_000_000, "1 of 1 record not acknowledged: Message size too large"),
    ],
    ids=lambda value: value[:16] if isinstance(value, str) else "".join(value),
)
def test_produce_refuses_in_a_sentence(
    any_topic: str, at: tuple[str, str], options: tuple[str, ...], lines: str, complaint: str
) -> None:
    """The message names the line and its error; the lines before it are produced."""
    assert complaint in refusal("produce", any_topic, *options, *at, given=lines)


def test_produce_to_an_unknown_topic_says_that_the_cluster_made_it(at: tuple[str, str]) -> None:
    """By default the cluster creates topics for producers; the command says so, because the name may be misspelt."""
    ran = run("produce", "made-by-producing", *at, given="x\n")
    assert ran.returncode == 0, ran.stderr
    assert "there was no topic 'made-by-producing': the cluster created it" in ran.stderr
    assert "topic name is invalid" in refusal("produce", "bad name!", *at, given="x\n")


def test_from_and_until_choose_a_range(make_topic: Callable[..., str], at: tuple[str, str]) -> None:
    """Offsets count from `--from`, inclusive, to `--until`, exclusive."""
    topic = make_topic()
    put(topic, *at, given="".join(f"{number}\n" for number in range(10)))
    assert succeed("consume", topic, "--from", "3", "--until", "6", *at) == "3\n4\n5\n"
    assert succeed("consume", topic, "-p", "0", "-n", "2", *at) == "0\n1\n"
    assert succeed("consume", topic, "--from", "latest", "--timeout", "0.3", *at) == ""
    assert "offset 11 is out of range" in refusal("consume", topic, "--from", "11", *at)
    assert "--from takes earliest, latest or an offset" in refusal("consume", topic, "--from", "x", *at)
    assert "--until takes end or an offset" in refusal("consume", topic, "--until", "x", *at)
    assert "has partitions 0 to 0, not 7" in refusal("consume", topic, "-p", "7", *at)


def test_time_that_a_group_takes_to_form_is_not_time_without_records(
    make_topic: Callable[..., str], at: tuple[str, str]
) -> None:
    """Guards: with --timeout 1 a new group showed nothing, as its first member waits three seconds for others."""
    topic = make_topic()
    put(topic, *at, given="1\n2\n")

    assert succeed("consume", topic, "--group", f"g-{topic}", "--timeout", "1", *at) == "1\n2\n"


def test_group_goes_on_where_it_stopped(topic: str, at: tuple[str, str]) -> None:
    """The group commits exactly what was shown: the next member shows the rest, each record once."""
    put(topic, *at, given="".join(f"{number}\n" for number in range(10)))
    group = ("-g", f"of-{topic}", "--until", "end")
    first = succeed("consume", topic, *group, "-n", "4", *at).split()
    second = succeed("consume", topic, *group, *at).split()
    assert len(first) == 4
    assert sorted(first + second, key=int) == [str(number) for number in range(10)]
    assert "--group reads all partitions" in refusal("consume", topic, "-g", "g", "-p", "0", *at)


def _flip(data: bytearray, position: int, header: BatchHeader) -> bytearray:
    data[position + header.size_bytes - 2] ^= 4
    return data


def _lengthen(data: bytearray, position: int, _header: BatchHeader) -> bytearray:
    data[position + 8 : position + 12] = (1 << 30).to_bytes(4)
    return data


def _cut(data: bytearray, position: int, _header: BatchHeader) -> bytearray:
    return data[: position + 10]


@pytest.mark.parametrize(
    ("damage", "shown", "said", "more"),
    [
        pytest.param(_flip, "0\n", "the batch at offset 1 is damaged", (), id="wrong-checksum"),
        pytest.param(_lengthen, "0\n", "has a damaged batch there", (), id="wrong-length"),
        # A broker reads several batches at once, and what it cannot read whole it does not serve.
        pytest.param(_cut, "", "cannot read that part of the log from disk", ("--timeout", "1"), id="short-file"),
    ],
)
def test_batch_that_is_damaged_in_every_copy_is_named(
    make_topic: Callable[..., str],
    at: tuple[str, str],
    three_brokers: LocalCluster,
    damage: Callable[[bytearray, int, BatchHeader], bytearray],
    shown: str,
    said: str,
    more: tuple[str, ...],
) -> None:
    """What is before it is shown, then the command ends with one sentence, also if the client library says nothing."""
    topic = make_topic()
    for number in range(3):
        put(topic, *at, given=f"{number}\n")
    (segment,) = three_brokers.directory.glob(f"broker-*/{topic}-0/*.log")
    before = segment.read_bytes()
    _, (position, header), _ = iterate(memoryview(before), 0, len(before))
    segment.write_bytes(damage(bytearray(before), position, header))
    try:
        ran = run("consume", topic, "--until", "end", *more, *at)
    finally:
        segment.write_bytes(before)

    assert (ran.returncode, ran.stdout) == (1, shown), ran.stderr
    assert f"{topic}-0" in ran.stderr
    assert said in ran.stderr.splitlines()[-1]


def test_deleted_topic_is_named_and_stays_deleted(topic: str, at: tuple[str, str], admin: AdminClient) -> None:
    """Guards: the command asked why nothing came, for this topic alone, and so the cluster created it again."""
    put(topic, *at, given="0\n1\n")
    process = subprocess.Popen(
        command("consume", topic, *at), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        admin.delete_topics([topic])[topic].result(10)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 1, said
    assert "the topic was deleted. `syncline topics list` lists all topics." in said.splitlines()[-1]
    assert topic not in admin.list_topics(timeout=10).topics


def test_reader_that_has_enough_is_no_error(topic: str, at: tuple[str, str]) -> None:
    """`| head -1` ends the command without a message."""
    put(topic, *at, given="".join(f"{number:0500}\n" for number in range(2_000)))
    consumer = subprocess.Popen(
        command("consume", topic, *at), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert consumer.stdout is not None
    assert consumer.stderr is not None
    consumer.stdout.readline()
    consumer.stdout.close()
    assert messages(consumer.stderr.read()) == ""
    assert consumer.wait(10) != 0
    consumer.stderr.close()


@pytest.mark.parametrize("after_s", [0.03, 0.1, 0.3, 0.6], ids=str)
@pytest.mark.parametrize("verb", ["consume", "produce"])
def test_ctrl_c_ends_it_at_any_moment_without_a_traceback(
    any_topic: str, at: tuple[str, str], verb: str, after_s: float
) -> None:
    """Ctrl-C ends the command at once, silently or with one sentence."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        command(verb, any_topic, *at), env=ENVIRONMENT, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(reader)
    # Any moment of the start may be the one; most leave no trace that could be waited for.
    time.sleep(after_s)
    began_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    os.close(writer)
    assert time.monotonic() - began_s < 3
    assert b"syncline/" not in errors, errors.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_consumer_that_is_ended_leaves_its_group(
    topic: str, at: tuple[str, str], admin: AdminClient, number: signal.Signals
) -> None:
    """The others of a group need not wait for its session; the exit code is that of the signal."""
    put(topic, *at, given="one\n")
    group = f"readers-of-{topic}"
    # What is ignored stays ignored, and the caller of the tests may ignore some (`nohup`).
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(command("consume", topic, "-g", group, *at), env=ENVIRONMENT, stdout=subprocess.PIPE)
    finally:
        signal.signal(number, before)
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"
            process.send_signal(number)
            process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert admin.describe_consumer_groups([group])[group].result(10).members == []


def test_producer_that_is_ended_says_what_is_acknowledged(topic: str, at: tuple[str, str]) -> None:
    """Records that wait to be sent are sent first."""
    reader, writer = os.pipe()
    process = subprocess.Popen(command("produce", topic, *at), env=ENVIRONMENT, stdin=reader, stderr=subprocess.PIPE)
    os.close(reader)
    os.write(writer, b"one\ntwo\n")
    until(lambda: values(topic, *at) == ["one", "two"], otherwise="no records")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)
    os.close(writer)
    assert (process.returncode, messages(errors)) == (
        128 + signal.SIGTERM,
        "\nsyncline: interrupted: 2 records acknowledged, 0 unknown\n",
    )


def test_a_file_is_read(tmp_path: Path, topic: str, at: tuple[str, str]) -> None:
    """`--file` instead of standard input; an unreadable file is wrong usage."""
    (tmp_path / "lines").write_text("a\nb\n")
    put(topic, "-f", str(tmp_path / "lines"), *at)
    assert values(topic, *at) == ["a", "b"]
    assert "does not exist" in refused("produce", topic, "-f", str(tmp_path / "none"), *at, code=2)
    assert "is a directory" in refused("produce", topic, "-f", str(tmp_path), *at, code=2)
