"""TLS: contexts from a client's settings, connections wrapped in them, and failures as sentences.

Python's `ssl` decides about certificates; nothing here weakens it but `checks_host`, which Kafka's clients have, too.
A certificate in the trust store is trusted even if it is no authority's, as in Java, so that a broker's own
certificate can be named.

Contexts are kept for a while, since each task connects to each leader and reading stores takes milliseconds; a
changed file makes a new one, so that certificates can be renewed under a running query.
"""

import socket
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

from syncline.pipeline.client import stores
from syncline.pipeline.client.security import Tls
from syncline.pipeline.client.settings import Address
from syncline.pipeline.client.tls_failures import sentence
from syncline.pipeline.errors import SecurityError

_CONTEXTS_KEPT: Final = 4
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def encrypted(stream: socket.socket, address: Address, tls: Tls) -> ssl.SSLSocket:
    """Return the stream after a TLS handshake.

    Raises `SecurityError` for what a retry does not fix, `OptionError` for unusable stores, and `OSError` for a
    connection that fails in between.
    """
    try:
        return context(tls).wrap_socket(stream, server_hostname=address[0])
    except ssl.SSLError as error:
        said = sentence(error, address, tls)
        if said is None:
            raise
        raise SecurityError(said) from error


def context(tls: Tls) -> ssl.SSLContext:
    """Return a context for these settings; raise `OptionError` for a store that cannot be read."""
    return _context(tls, tuple(map(_stamp, _files(tls))))


@lru_cache(_CONTEXTS_KEPT)
def _context(tls: Tls, stamps: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    assert len(stamps) == len(_files(tls)), "a stamp for each file"
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = tls.checks_host
    made.minimum_version, made.maximum_version = (_VERSIONS[choose(tls.versions)] for choose in (min, max))
    made.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if tls.trust is None:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        stores.trust(made, tls.trust)
    if tls.keys is not None:
        stores.show(made, tls.keys)
    return made


def _files(tls: Tls) -> list[str]:
    named = [tls.trust.file] if tls.trust else []
    if tls.keys:
        named += [tls.keys.file, tls.keys.key_file]
    return [file for file in named if file]


def _stamp(file: str) -> tuple[int, int]:
    """Return what changes with a file's content; a file that cannot be read says so where it is opened."""
    try:
        found = Path(file).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
