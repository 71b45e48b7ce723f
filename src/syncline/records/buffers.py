"""The buffer types that move through the data path.

`collections.abc.Buffer` exists from Python 3.12; until then the three concrete
types are named. Views are passed by reference and never copied on the way.
"""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview
