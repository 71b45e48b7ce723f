"""From a topic's configuration to the settings of its logs."""

from syncline.model.topic_config import TopicConfig
from syncline.storage.settings import LogSettings


def log_settings(config: TopicConfig) -> LogSettings:
    """Return the settings of a topic's logs."""
    return LogSettings(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        flush_messages=config.flush_messages,
        is_delete_policy="delete" in config.cleanup_policy,
    )
