"""A process of brokers has no modules of which others want a name or two, and all it needs works without."""

import subprocess
import sys

from tests.cluster import ROOT

SPARED = {"inspect", "ast", "dis", "platform", "subprocess", "locale", "tokenize", "typing_extensions"}
SPARED |= {"urllib.parse", "ipaddress", "sysconfig", "argparse"}


def printed(script: str) -> str:
    """Return what a new process prints."""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return ran.stdout


AS_UP = """
import sys
sys.argv = ["syncline", "up"]
import syncline.cli.main
from syncline.cli.up_options import parse
assert parse(["--brokers", "2"]).brokers == 2
from syncline.local.preload import preload
preload()
"""


def test_brokers_are_forked_from_a_process_without_them() -> None:
    """Guards: they took 2 MB of each broker."""
    assert printed(f"{AS_UP}print(sorted({SPARED!r} & set(sys.modules)))") == "[]\n"


def test_later_imports_get_the_real_ones() -> None:
    """And what was imported with a stand-in goes on working."""
    script = f"""{AS_UP}
import asyncio, dataclasses, functools, os, pathlib, traceback, uuid
import uvloop

assert pathlib.Path("/a b").as_uri() == "file:///a%20b"
assert not {SPARED!r} - {{"urllib.parse", "ipaddress", "subprocess", "locale"}} & set(sys.modules)

class Some:
    async def method(self): ...
    def plain(self): ...

async def function(): ...

for value in (Some().method, function, functools.partial(function)):
    assert asyncio.iscoroutinefunction(value)
for value in (Some().plain, print, functools.partial(print), 7):
    assert not asyncio.iscoroutinefunction(value)

wrapped = functools.wraps(function)(lambda: 0)
assert asyncio.format_helpers._get_function_source(wrapped)[1] == function.__code__.co_firstlineno

Undocumented = dataclasses.make_dataclass("Undocumented", ["field"])
assert Undocumented(1).field == 1 and Undocumented.__doc__ == "Undocumented"

async def run():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(6 * 7)", stdout=asyncio.subprocess.PIPE)
    return (await child.communicate())[0]

assert asyncio.run(run()) == b"42\\n"
loop = uvloop.new_event_loop()
assert loop.run_until_complete(run()) == b"42\\n"
loop.close()

try:
    uuid.UUID("none")
except ValueError:
    assert "raise ValueError" in traceback.format_exc()

import inspect, platform, subprocess, urllib.parse
assert str(inspect.signature(Undocumented)) == "(field: 'typing.Any') -> None"
assert asyncio.coroutines.inspect.signature(Undocumented) == inspect.signature(Undocumented)
assert asyncio.coroutines.inspect.cleandoc is inspect.cleandoc
assert platform.system() == os.uname().sysname
assert subprocess.PIPE == asyncio.subprocess.PIPE
print(urllib.parse.urlsplit("http://host:1/").port)
"""

    assert printed(script) == "1\n"


def test_modules_that_are_there_stay() -> None:
    """A process that imported them before goes on with them."""
    script = """
import inspect, subprocess, sys
from syncline.local.spared_modules import spared_modules
with spared_modules():
    import dataclasses
    import platform as stand_in
    print(dataclasses.inspect is inspect, stand_in.machine() != "", sys.modules["platform"] is not stand_in)
print(sys.modules["inspect"] is inspect, sys.modules["subprocess"] is subprocess, "tokenize" in sys.modules)
"""

    assert printed(script) == "True True True\nTrue True True\n"
