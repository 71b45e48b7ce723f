"""Which hosts a request for the metrics may name."""

import pytest

from tests.node.metrics.scraping import HttpClient, ask, serve
from tests.node.world import World


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param(b"localhost", 200, id="localhost"),
        pytest.param(b"LocalHost.:9094", 200, id="localhost with dot and port"),
        pytest.param(b"metrics.localhost", 200, id="below localhost"),
        pytest.param(b"127.0.0.1:9094", 200, id="loopback"),
        pytest.param(b"127.9.9.9", 200, id="another loopback"),
        pytest.param(b"[::1]:9094", 200, id="loopback of IPv6"),
        pytest.param(b"BROKER-1:9094", 200, id="configured host"),
        pytest.param(b"evil.example", 421, id="another name"),
        pytest.param(b"evil.example:9094", 421, id="another name with the port"),
        pytest.param(b"localhost.evil.example", 421, id="localhost before"),
        pytest.param(b"notlocalhost", 421, id="localhost behind"),
        pytest.param(b"127.0.0.1.evil.example", 421, id="loopback before"),
        pytest.param(b"10.0.0.1", 421, id="another address"),
        pytest.param(b"127.0.0.1@evil.example", 421, id="user name"),
        pytest.param(b"evil.example, localhost", 421, id="list"),
        pytest.param(b"localhost:evil.example", 421, id="no port"),
        pytest.param(b"[::1].evil.example", 421, id="behind brackets"),
        pytest.param(b"", 421, id="empty"),
    ],
)
async def test_request_must_name_this_machine(world: World, host: bytes, status: int) -> None:
    """A web page whose name leads to 127.0.0.1 (DNS rebinding) could otherwise read the metrics."""
    await serve(world)
    for request in (
        b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
        b"GET http://" + host + b"/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\nHost: " + host + b"\r\n\r\n",
    ):
        found, _, body = await ask(world, await HttpClient.connect(), request)
        if b" " in host and request.startswith(b"GET http"):
            continue
        assert found == status
        assert (b"ask for the metrics of localhost" in body) == (status == 421)
