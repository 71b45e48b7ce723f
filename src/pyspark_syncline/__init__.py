"""Where Spark finds the format "syncline" by itself: it looks into every top-level module named `pyspark_*`."""

from syncline.pipeline.source.spark import SynclineSource as DefaultSource

__all__ = ["DefaultSource"]
