"""Where Spark finds the format "syncline" by itself: it looks into every top-level module named `pyspark_*`.

Also what users import beside it. Names that need packages of an extra are imported on first use.
"""

from typing import TYPE_CHECKING, Any

from syncline.pipeline.checkpoints import starting_offsets
from syncline.pipeline.source.snapshot import snapshot
from syncline.pipeline.source.spark import SynclineSource as DefaultSource

if TYPE_CHECKING:
    from syncline.pipeline.delta import delta_batches
    from syncline.pipeline.registry.columns import SchemaRegistry

__all__ = ["DefaultSource", "SchemaRegistry", "delta_batches", "snapshot", "starting_offsets"]


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name == "SchemaRegistry":
        from syncline.pipeline.registry.columns import SchemaRegistry

        return SchemaRegistry
    if name == "delta_batches":
        from syncline.pipeline.delta import delta_batches

        return delta_batches
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
