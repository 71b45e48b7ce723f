"""Where Spark finds the format "syncline" by itself: it looks into every top-level module named `pyspark_*`.

Also what users import beside it.
"""

from syncline.pipeline.checkpoints import starting_offsets
from syncline.pipeline.source.snapshot import snapshot
from syncline.pipeline.source.spark import SynclineSource as DefaultSource

__all__ = ["DefaultSource", "snapshot", "starting_offsets"]
