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
from syncline.local.preload import preload
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


def test_python_that_leaves_hashes_to_openssl_keeps_it_for_them() -> None:
    """Some distributions build it so: `hashlib`, and with it `random`, would not import."""
    script = """
import sys

HIDDEN = {"_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3"}

class Hides:
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError(name)

import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in HIDDEN else find_spec(name, package)
sys.meta_path.insert(0, Hides())
from syncline.local.preload import preload
preload()
import hashlib, random
print(hashlib.sha256(b"").hexdigest()[:8], sys.modules.get("_hashlib") is not None)
"""

    assert printed(script) == "e3b0c442 True\n"
