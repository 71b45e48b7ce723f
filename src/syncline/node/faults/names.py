"""The names of faults and of disk operations, for code that a broker imports before it has a fault.

`table.py` describes the faults; importing it takes milliseconds.
"""

from typing import Final

# What a disk does.
READ: Final = "read"
# A read that does not find all of its bytes in memory.
MISS: Final = "miss"
WRITE: Final = "write"
SYNC: Final = "sync"

# Kinds of faults.
DISK_SLOW: Final = "disk-slow"
DISK_STUCK: Final = "disk-stuck"
DISK_FAIL: Final = "disk-fail"
LINK_CUT: Final = "link-cut"
LINK_CUT_ONE_WAY: Final = "link-cut-one-way"
LINK_DELAY: Final = "link-delay"
API_DROP_REPLY: Final = "api-drop-reply"
API_ERROR: Final = "api-error"
API_DISCONNECT: Final = "api-disconnect"
API_THROTTLE: Final = "api-throttle"
PAUSE: Final = "pause"
KILL: Final = "kill"
