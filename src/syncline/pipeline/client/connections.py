"""The connections of one client: one to each broker, opened when it is first used and again after a failure.

A failure closes its connection and becomes a `RetriableError`, so that the caller need only retry: a `HungUpError`
where the broker closed a connection that it had accepted. What a retry does not fix, such as a wrong password or
a listener that expects another protocol (`first_contact`), is a `SecurityError` or `OptionError` instead.

Until a broker has answered, each address has its share of `bootstrap_timeout_ms`, so that all have their turn.

Units: milliseconds.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from syncline.pipeline.client.connection import Connection
from syncline.pipeline.client.first_contact import FirstContact
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.refusals import HungUpError, RetriableError
from syncline.pipeline.client.settings import Address, ClientSettings
from syncline.pipeline.errors import SecurityError

_CONNECT_MS_MIN: Final = 500


@dataclass(slots=True)
class Connections:
    """Sends requests to brokers and returns their answers; `is_proven` says that one has answered, now or before."""

    settings: ClientSettings
    is_proven: bool = False
    by_address: dict[Address, Connection] = field(default_factory=dict)
    _contact: FirstContact = field(default_factory=FirstContact)

    def close(self) -> None:
        """Close all connections; later use opens new ones."""
        for connection in self.by_address.values():
            connection.close()
        self.by_address.clear()

    def call(self, address: Address, api: Api, body: bytes) -> memoryview:
        """Return a broker's answer to one request; no other is in flight to it."""
        with self._connected(address) as connection:
            assert not connection.unanswered, f"{len(connection.unanswered)} answers are still to be received"
            connection.send(api, body)
            view = self._received(connection)
        return view  # noqa: RET504 -- mypy takes every context for one that may swallow an error

    def send(self, address: Address, api: Api, body: bytes) -> None:
        """Send a request, whose answer `receive` returns."""
        with self._connected(address) as connection:
            connection.send(api, body)

    def receive(self, address: Address) -> memoryview:
        """Return the answer to the oldest request that this broker has not answered."""
        with self._connected(address) as connection:
            view = self._received(connection)
        return view  # noqa: RET504 -- as in `call`

    def awaits(self, address: Address) -> bool:
        """Return whether a request to this broker is not answered yet."""
        connection = self.by_address.get(address)
        return connection is not None and len(connection.unanswered) > 0

    @property
    def patience_ms(self) -> int:
        """Return how long attempts may fail."""
        if self.is_proven:
            return self.settings.patience_ms
        return min(self.settings.patience_ms, self.settings.bootstrap_timeout_ms)

    @contextmanager
    def _connected(self, address: Address) -> Iterator[Connection]:
        """Give the connection to a broker, an open one or a new one; close it after an error."""
        try:
            connection = self.by_address.get(address)
            if connection is None:
                connection = self.by_address[address] = Connection.open(address, self._opening_settings())
            yield connection
        except OSError as error:
            stale = self.by_address.pop(address, None)
            if stale is not None:
                stale.close()
            failure = f"{address[0]}:{address[1]}: {error}"
            if self._contact.is_hopeless(error, time.monotonic()):
                raise SecurityError(failure) from error
            kind = HungUpError if stale is not None and isinstance(error, ConnectionError) else RetriableError
            raise kind(failure) from error

    def _received(self, connection: Connection) -> memoryview:
        _, api = connection.unanswered[0]
        answer = connection.receive()
        self._contact.answered(api)
        if not self.is_proven:
            self.is_proven = True
            connection.wait_at_most(self.settings.request_timeout_ms)
        return answer

    def _opening_settings(self) -> ClientSettings:
        """Return settings whose timeout lets every bootstrap address have its turn, as long as none has answered."""
        if self.is_proven:
            return self.settings
        share_ms = max(_CONNECT_MS_MIN, self.patience_ms // len(self.settings.bootstrap))
        return replace(self.settings, request_timeout_ms=min(self.settings.request_timeout_ms, share_ms))
