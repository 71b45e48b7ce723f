"""Reaching a cluster: who waits for an address that does not answer is told for which one, and scripts are not."""

import socket
from collections.abc import Iterator

import pytest

from syncline.cli import direct, target
from syncline.cli.direct import Direct
from syncline.cli.reassign.cluster_reading import read_cluster
from tests.cli.scripted_kafka import Serve
from tests.cli.terminal import refusal


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and answers nothing, as a paused broker's or a wrong port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (direct, target):
        monkeypatch.setattr(module, "CONNECT_STEP_S", 0.2)
    monkeypatch.setattr(target, "CONNECT_TIMEOUT_S", 0.5)
    monkeypatch.setattr(direct, "REQUEST_TIMEOUT_S", 0.5)


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("command", [("topics", "list"), ("reassign", "list")], ids=["client-library", "direct"])
def test_address_that_is_waited_for_is_named_once_on_standard_error(
    silent: str, command: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards: 5 s of silence, 15 s for moves, until a sentence said that no broker answers there."""
    sentence = refusal(*command, "--bootstrap", silent)
    shown = capsys.readouterr()

    assert f"no broker answers at {silent}" in sentence
    assert shown.out == ""
    assert shown.err.count("\n") == shown.err.count(silent) == 1


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("command", [("topics", "list"), ("reassign", "list")], ids=["client-library", "direct"])
def test_address_that_refuses_is_not_waited_for(command: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence that the command ends with says all."""
    sentence = refusal(*command, "--bootstrap", "127.0.0.1:1,127.0.0.1:2")

    assert "refused" in sentence
    assert capsys.readouterr().err == ""


def test_broker_that_is_silent_in_a_cluster_that_answers_is_not_announced(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command shows says so itself."""
    kafka = serve()
    kafka.silent = {2}
    with Direct(kafka.bootstrap, patience_s=1.2) as cluster:
        state = read_cluster(cluster, with_sizes=True)

    assert state.brokers[2].is_silent
    assert capsys.readouterr().err == ""
