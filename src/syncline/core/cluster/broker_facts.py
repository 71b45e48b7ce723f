"""What a broker is, as DescribeConfigs shows it: its number, where it listens, where its logs are.

In Kafka these are configurations of the broker's file, and tools read them as facts. Here the command line and the data
directory decide them, so a running broker states them beside the values that it was started with: they are static and
read-only. `advertised.listeners` has what Metadata gives to clients; `listeners` also has where other brokers connect.
Source: Kafka's KRaft and socket server configurations, as of 4.3.
"""

from typing import Final, NamedTuple

CLIENT_LISTENER: Final = "PLAINTEXT"
INTERNAL_LISTENER: Final = "INTERNAL"


class Address(NamedTuple):
    """Where a listener is."""

    host: str
    port: int


def broker_facts(
    broker_id: int, *, client: Address, internal: Address, log_directory: str, rack: str | None
) -> dict[str, str]:
    """Return the static configurations that state what a running broker is, as texts by name."""
    assert client != internal, f"clients and brokers share {client}"
    advertised = f"{CLIENT_LISTENER}://{client.host}:{client.port}"
    facts = {
        "advertised.listeners": advertised,
        "broker.id": str(broker_id),
        "inter.broker.listener.name": INTERNAL_LISTENER,
        "listener.security.protocol.map": f"{CLIENT_LISTENER}:PLAINTEXT,{INTERNAL_LISTENER}:PLAINTEXT",
        "listeners": f"{advertised},{INTERNAL_LISTENER}://{internal.host}:{internal.port}",
        "log.dir": log_directory,
        "log.dirs": log_directory,
        "node.id": str(broker_id),
        # Any broker may hold the controller's lease.
        "process.roles": "broker,controller",
    }
    if rack is not None:
        facts["broker.rack"] = rack
    return facts
