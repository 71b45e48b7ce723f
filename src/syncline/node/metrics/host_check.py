"""Which hosts a request for metrics may name: this machine's own names, or those of the listener.

A web page that a user of this machine has open can give its own name the address 127.0.0.1 (DNS rebinding). Its
scripts may then read what that address answers, as the browser takes it for the page's own server. Only the name in
the request shows that: a browser puts the page's name there.

Source: RFC 9110, sections 7.2 (Host) and 15.5.20 (421).
"""

import re
from collections.abc import Collection
from typing import Final

_LOCAL: Final = re.compile(rb"(.+\.)?localhost|127(\.\d{1,3}){3}|::1")
# A name or an address, in brackets if it is one of IPv6, and perhaps a port. The name may end with a dot.
_HOST: Final = re.compile(rb"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+?)\.?)(?::\d*)?")


def names_this_machine(host: bytes, own: Collection[str]) -> bool:
    """Return whether a Host header is a local name or address, or among the listener's `own`, in lower case."""
    match = _HOST.fullmatch(host.strip().lower())
    if match is None:
        return False
    name = match[1] or match[2]
    return _LOCAL.fullmatch(name) is not None or name.decode("latin-1") in own


def named_hosts(target: bytes, headers: Collection[tuple[bytes, bytes]]) -> list[bytes]:
    """Return each host that a request names: in its header, and in its target if that is a whole URL."""
    found = [value for name, value in headers if name == b"host"]
    if target[:7].lower() == b"http://":
        found.append(target[7:].partition(b"/")[0])
    return found
