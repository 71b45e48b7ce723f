"""A process of brokers has no OpenSSL, and all it needs works without."""

import subprocess
import sys

from tests.cluster import ROOT

MAPPED = """
from pathlib import Path
def mapped():
    maps = Path("/proc/self/maps")
    return maps.exists() and any(name in maps.read_text() for name in ("libssl", "libcrypto"))
"""


def printed(script: str) -> str:
    """Return what a new process prints."""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return ran.stdout


def test_brokers_are_forked_from_a_process_without_openssl() -> None:
    """Guards: OpenSSL took 3 MB of each broker; asyncio, uvloop and the control API each imported it."""
    script = f"""
import sys
from syncline.local.supervisor import preload
preload()
from syncline.node import handlers
handlers.import_for_brokers()
handlers.import_for_tools()
table = handlers.Handlers()
assert None not in [table.get(key) for key in table.keys()]
{MAPPED}
print(sorted({{"ssl", "_ssl"}} & set(sys.modules)), sys.modules.get("_hashlib"), mapped())
"""

    assert printed(script) == "[] None False\n"


def test_connections_hashes_and_later_imports_work_without_it() -> None:
    """Both loops connect; what imports `ssl` later gets the real one."""
    script = """
from syncline.local.without_openssl import spare_openssl
spare_openssl()
import asyncio, hashlib, hmac, importlib.util

async def echoed():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"line\\n")
    answer = await reader.read()
    writer.close()
    server.close()
    return answer

assert asyncio.run(echoed()) == b"line\\n"
if importlib.util.find_spec("uvloop"):
    import uvloop
    loop = uvloop.new_event_loop()
    assert loop.run_until_complete(echoed()) == b"line\\n"
    loop.close()
assert hmac.compare_digest(b"same", b"same") and not hmac.compare_digest(b"same", b"sane")
assert all(hashlib.new(name, usedforsecurity=False) for name in hashlib.algorithms_guaranteed)
import ssl
print(ssl.create_default_context().check_hostname)
"""

    assert printed(script) == "True\n"


def test_a_process_that_has_it_keeps_it() -> None:
    """Where asyncio is imported already, TLS goes on working."""
    script = """
import asyncio.sslproto, ssl, sys
from syncline.local.without_openssl import spare_openssl
spare_openssl()
print(sys.modules["ssl"] is ssl is asyncio.sslproto.ssl, sys.modules.get("_hashlib", "not imported"))
"""

    assert printed(script) == "True not imported\n"
