"""The buffer types that move through the data path.

`collections.abc.Buffer` exists only from Python 3.12 on, so these are unions of
the concrete types. The data path passes views and never copies them.
"""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview
