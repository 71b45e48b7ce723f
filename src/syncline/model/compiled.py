"""What the sources know of the compiled build (docs/compiled-build.md): marks for some classes, and which build it is.

Where nothing is compiled the marks do nothing, and nothing but these sources is needed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    # mypyc knows the marks by this name.
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414
else:
    _T = TypeVar("_T")

    def mypyc_attr(**_marks: bool) -> Callable[[_T], _T]:
        """Return the class as it is."""
        return lambda marked: marked


def is_compiled() -> bool:
    """Return whether this is the compiled build."""
    # Imported late: brokers import this module, and none asks.
    from importlib.util import find_spec

    found = find_spec("syncline.records.batch")
    return found is not None and found.origin is not None and not found.origin.endswith(".py")
