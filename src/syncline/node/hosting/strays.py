"""Strays: logs on this broker's disk that belong to no replica of this broker.

Their topic was deleted, or their replica moved away, while this broker was down.
"""

import logging
from collections.abc import Container

from syncline.model.ids import TopicPartition
from syncline.node.hosting.offline_logs import OfflineLogs
from syncline.storage.log_directory import LogDirectory

log = logging.getLogger("syncline.node")


def delete_strays(logs: LogDirectory, hosted: Container[TopicPartition], offline: OfflineLogs, now_ms: int) -> None:
    """Delete the logs that are not hosted after the first image was applied."""
    for key in list(logs.logs):
        if key not in hosted:
            log.warning("%s is no longer assigned to this broker; its log is deleted", key)
            logs.delete(key, now_ms)
    offline.discard_strays(now_ms)
