"""Control: requests to one broker outside Kafka's protocol, each a verb with JSON fields.

CONTROL (private key 20002, version 0, internal listener only) is for tools on the broker's own machine: faults to
inject, views to show. Request and answer are one JSON object in UTF-8 each, from the end of the header to the end of
the frame:

    request   {"verb": "room.what", "secret": "...", "until_ms": ..., ...fields of the verb}
    answer    {"error": null, ...} or {"error": "a sentence that says what is wrong and what to do"}

`secret` is in the cluster's data directory, which only the directory's user can read: every user of the machine can
connect to the internal listener. `until_ms` is when the caller stops waiting, by the wall clock of the machine that
both run on. A broker that was paused finds the request afterwards, and must not do what the caller has reported as
failed. Without `until_ms` the request has no deadline.

A verb is a function of the broker and the fields that returns the answer's fields, or an awaitable of them. It refuses
by raising `ControlRefused`. A module that serves verbs is imported at the first request for one of them.
"""

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from syncline.model.ids import BrokerEpoch
    from syncline.node.views.parts import MayBeController
    from syncline.node.views.values import HasBrokerId, HasClock, HasImage

    class Caller(HasBrokerId, HasClock, Protocol):
        """What every control request uses of its broker."""

    class Host(HasBrokerId, HasImage, MayBeController, Protocol):
        """What the verbs of this module use of their broker."""

        @property
        def broker_epoch(self) -> BrokerEpoch:
            """Return the epoch of this process's registration."""


log = logging.getLogger("syncline.node")

Fields = Mapping[str, Any]
Answer = dict[str, Any]
Verb = Callable[[Any, Fields], Answer | Awaitable[Answer]]

# Each verb's function: module below `syncline.node`, and name in it.
VERBS: Final[dict[str, tuple[str, str]]] = {
    "broker.describe": ("control.verbs", "describe"),
    "broker.partition": ("control.verbs", "partition"),
    "cache.show": ("lag.cache_verbs", "show"),
    "faults.add": ("faults.verbs", "add"),
    "faults.list": ("faults.verbs", "show"),
    "faults.clear": ("faults.verbs", "clear"),
    "faults.record": ("faults.verbs", "record"),
    "journal.unwritten": ("observing.journal", "show"),
    "lag.group": ("lag.verbs", "group"),
    "lag.groups": ("lag.verbs", "groups"),
    "lag.places": ("lag.place_verbs", "places"),
    "lag.readers": ("lag.reader_verbs", "readers"),
    "replicas.show": ("control.replica_view", "show"),
    "replication.views": ("hosting.partition_status", "peers"),
    "status.partitions": ("hosting.partition_status", "show"),
}


class ControlRefused(Exception):
    """A verb cannot do what was asked; the message is a sentence for the caller."""


def parse_call(body: bytes) -> tuple[str, Answer]:
    """Return (verb, fields) of a request; raises `ControlRefused` if it is malformed."""
    try:
        fields = json.loads(body)
        # Half a surrogate pair is valid JSON, but cannot be encoded as UTF-8 in an answer or in the journal.
        encode_answer(fields)
    except (ValueError, RecursionError):
        raise ControlRefused("a control request is a JSON object in UTF-8, this one cannot be read.") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("verb"), str):
        raise ControlRefused('a control request is a JSON object with a "verb".')
    return fields.pop("verb"), fields


def check_secret(fields: Answer, secret: str | None) -> None:
    """Take the caller's secret out of the fields; raises `ControlRefused` unless it is this broker's."""
    given = fields.pop("secret", "")
    if secret is None:
        raise ControlRefused("this broker was started without a secret for control requests, so it takes none.")
    if not isinstance(given, str) or not compare_digest(given.encode(), secret.encode()):
        raise ControlRefused(
            f"this control request {'carries a wrong secret' if given else 'carries no secret'}. Brokers take those "
            "with the secret in their cluster's data directory, which is private to the user who started it: run this "
            "command on the brokers' machine, as that user, with --data DIRECTORY."
        )


async def perform(broker: "Caller", verb: str, fields: Fields) -> Answer:
    """Return the answer to a request, which may be a refusal; never raises because of the request."""
    fields = dict(fields)
    until_ms = fields.pop("until_ms", None)
    if isinstance(until_ms, int) and broker.clock.wall_ms() > until_ms:
        return {"error": f"broker {broker.broker_id} got to {verb} after the caller had stopped waiting."}
    try:
        answer = _function_of(verb)(broker, fields)
        if inspect.isawaitable(answer):
            answer = await answer
    except ControlRefused as refusal:
        return {"error": str(refusal)}
    except Exception as error:
        log.exception("control: %s failed", verb)
        return {"error": f"broker {broker.broker_id} failed in {verb} ({error!r}); its log has the details."}
    return {"error": None, **answer}


def encode_answer(answer: Answer) -> bytes:
    """Return the body of an answer."""
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()


def describe(broker: "Host", _fields: Fields) -> Answer:
    """Return which broker answers, and which one it knows as controller."""
    active = broker.controller.active
    return {
        "broker": broker.broker_id,
        "broker_epoch": broker.broker_epoch,
        "controller": broker.image.controller_id,
        "is_controller": active is not None,
        "lease_epoch": active.lease_epoch if active is not None else None,
        "verbs": sorted(VERBS),
    }


def partition(broker: "Host", fields: Fields) -> Answer:
    """Return the leader and the replicas of a partition, as this broker knows them."""
    topic, index = fields.get("topic"), fields.get("partition")
    if not isinstance(topic, str) or not isinstance(index, int):
        raise ControlRefused('a partition is named by "topic" (text) and "partition" (number).')
    record = broker.image.partition(topic, index)
    if record is None:
        raise ControlRefused(f"there is no partition {index} of {topic!r}. `syncline topics list` shows the topics.")
    return {
        "leader": record.leader,
        "leader_epoch": record.leader_epoch,
        "replicas": list(record.replicas),
        "isr": list(record.isr),
    }


def _function_of(verb: str) -> Verb:
    place = VERBS.get(verb)
    if place is None:
        raise ControlRefused(f"there is no verb {verb!r}. Known: {', '.join(sorted(VERBS))}.")
    module, name = place
    function: Verb = getattr(import_module(f"syncline.node.{module}"), name)
    return function
