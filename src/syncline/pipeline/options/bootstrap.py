"""The list of brokers to begin with, under Kafka's name or our short one."""

from collections.abc import Mapping
from typing import Final

from syncline.pipeline.client.settings import Address
from syncline.pipeline.errors import OptionError
from syncline.pipeline.options.values import refuse

_NAMES: Final = ("kafka.bootstrap.servers", "bootstrap")


def bootstrap(options: Mapping[str, str]) -> tuple[Address, ...]:
    """Return the addresses; raise `OptionError` for none, for what is no address, and for two lists that differ."""
    lists = {
        name: tuple(_address(name, part.strip()) for part in options[name].split(",") if part.strip())
        for name in _NAMES
        if name in options
    }
    found = [addresses for addresses in lists.values() if addresses]
    if not found:
        raise OptionError(
            "option kafka.bootstrap.servers is missing: write host:port of one or more brokers, with commas"
        )
    if any(set(other) != set(found[0]) for other in found):
        raise OptionError(
            f"options kafka.bootstrap.servers and bootstrap name different brokers, "
            f"{options['kafka.bootstrap.servers']} and {options['bootstrap']}: remove one of them"
        )
    return found[0]


def _address(name: str, written: str) -> Address:
    host, colon, port = written.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 1 << 16
    if not colon or not host or not is_port:
        refuse(name, written, "write host:port, such as localhost:9092")
    return host.strip("[]"), int(port)
