"""What a process imports before it forks brokers, so that these share it and begin at once."""

from syncline.local.spared_modules import spared_modules
from syncline.local.without_openssl import spare_openssl


def preload() -> None:
    """Import what brokers need, including the schemas of the first messages, once, before the forks."""
    with spared_modules():
        spare_openssl()

        import sqlite3  # noqa: F401

        import syncline.local.broker_process
        import syncline.node.faults.disk  # noqa: F401
        from syncline.wire.api import ApiKey
        from syncline.wire.codec import preload as preload_schemas

        preload_schemas(((ApiKey.BROKER_REGISTRATION, 4), (ApiKey.BROKER_HEARTBEAT, 1), (ApiKey.CREATE_TOPICS, 7)))
