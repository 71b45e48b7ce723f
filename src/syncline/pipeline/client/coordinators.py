"""The brokers that keep groups and transactions: FindCoordinator 3, and questions to the broker that it names.

Whether brokers keep transactions at all is asked with ApiVersions 0, which every broker serves.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

from syncline.model.errors import ErrorCode
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.messages import Api, decoded, encoded
from syncline.pipeline.client.refusals import RetriableError, is_fine, name_of
from syncline.pipeline.client.settings import Address
from syncline.pipeline.errors import BrokerError

FIND_COORDINATOR: Final = Api(10, 3, is_flexible=True)
API_VERSIONS: Final = Api(18, 0, is_flexible=False)
_END_TXN_KEY: Final = 26

Kind: TypeAlias = Literal["group", "transaction"]
_KINDS: Final[dict[Kind, int]] = {"group": 0, "transaction": 1}

Answer = TypeVar("Answer")


def offers_transactions(cluster: Cluster) -> bool:
    """Return whether the brokers have transaction coordinators."""

    def ask() -> bool:
        view = cluster.ask_any(API_VERSIONS, b"")
        try:
            code, count = struct.unpack_from(">hi", view)
            keys = {key for key, _, _ in struct.iter_unpack(">hhh", view[6 : 6 + 6 * count])}
        except struct.error as error:
            raise RetriableError(f"a response cannot be read: {error!r}") from error
        if not is_fine(code, "request for its API versions"):
            raise RetriableError(name_of(code))
        return _END_TXN_KEY in keys

    return cluster.persist("ask the brokers for their API versions", ask)


@dataclass(slots=True)
class Coordinator:
    """The coordinator of one group or transactional id, found again whenever it moves."""

    cluster: Cluster
    kind: Kind
    key: str
    _address: Address | None = field(default=None)

    def ask(self, task: str, api: Api, body: bytes, read: Callable[[memoryview], Answer]) -> Answer:
        """Return what `read` makes of the coordinator's answer; it raises `RetriableError` to have it asked again."""

        def attempt() -> Answer:
            try:
                if self._address is None:
                    self._address = self._find()
                return read(self.cluster.ask(self._address, api, body))
            except (OSError, RetriableError):
                self._address = None
                raise

        return self.cluster.persist(task, attempt)

    def _find(self) -> Address:
        from kio.schema.find_coordinator.v3 import request as q
        from kio.schema.find_coordinator.v3 import response as a
        from kio.static.primitive import i8

        question = encoded(q.FindCoordinatorRequest(key=self.key, key_type=i8(_KINDS[self.kind])))
        found = decoded(a.FindCoordinatorResponse, self.cluster.ask_any(FIND_COORDINATOR, question))
        check(int(found.error_code), f"the {self.kind} {self.key}")
        return found.host, int(found.port)


def check(code: int, subject: str) -> None:
    """Raise `RetriableError` for a code that passes and `BrokerError` for a refusal; the sentence names `subject`."""
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        raise BrokerError(
            f"the user may not use {subject}: allow writing and describing transactional ids with the prefix "
            "syncline-sink-, or set the option deliveryGuarantee to at-least-once"
        )
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        raise BrokerError(
            f"the user may not use {subject}: allow reading groups with the prefix syncline-sink-, "
            "or set the option deliveryGuarantee to at-least-once"
        )
    if not is_fine(code, subject):
        raise RetriableError(f"{subject}: {name_of(code)}")
