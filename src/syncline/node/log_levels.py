"""The levels of this process's loggers, as DescribeConfigs names them.

Source: KIP-412 (log levels of brokers), with the names of Kafka's logging library.
"""

import logging
from typing import Final

ROOT: Final = "root"
_PACKAGE: Final = "syncline"
_NAMES: Final = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL", logging.NOTSET: "TRACE"}


def log_levels() -> dict[str, str]:
    """Return the level in effect of the root logger and of each logger of Syncline, in the order of their names."""
    own = sorted(
        name
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == _PACKAGE
    )
    return {ROOT: _level(logging.root), **{name: _level(logging.getLogger(name)) for name in own}}


def _level(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return _NAMES.get(level, logging.getLevelName(level))
