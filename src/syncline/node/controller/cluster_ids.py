"""Ids that a controller creates: of clusters and of topics.

Both are random UUIDs, written in URL-safe base64 without padding (22
characters). As in Kafka, none begins with "-", because it would look like an
option in a command, and the few reserved ones are not used.
"""

import random
from uuid import UUID

from syncline.model.ids import uuid_text

_RESERVED = frozenset((UUID(int=0), UUID(int=1)))


def new_topic_id(rng: random.Random) -> UUID:
    """Return a new topic id."""
    while True:
        candidate = UUID(int=rng.getrandbits(128), version=4)
        if candidate not in _RESERVED and not uuid_text(candidate).startswith("-"):
            return candidate


def new_cluster_id(rng: random.Random) -> str:
    """Return a new cluster id."""
    return uuid_text(new_topic_id(rng))
