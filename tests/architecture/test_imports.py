"""The import contracts of pyproject.toml hold, and each of them catches a violation."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS: Final = [contract["name"] for contract in SETTINGS["contracts"]]

# What breaks each contract and no other: a module, usually a new one, and what it imports. If that is ours, it is an
# empty `target` in the named package, so that a planted violation does not depend on the names of real modules.
PLANTED: Final[Mapping[str, Mapping[str, str]]] = {
    "imports point down": {"virtual/time/planted.py": "import syncline.local.target"},
    "pure packages reach no clock, socket, file, thread or dice": {"model/planted.py": "import socket"},
    "the pipeline speaks to brokers as any client does": {"pipeline/client/planted.py": "import syncline.wire.target"},
    "explanations rest on the journal's events alone": {"explain/planted.py": "import syncline.records.target"},
    "plans of moves are made from data alone, of any cluster": {
        "reassign/planted.py": "import syncline.records.target"
    },
    "reports of moves are made from the journal's events alone": {
        "move_report/planted.py": "import syncline.records.target"
    },
    "reports of lag are made from the rules of lag alone": {"lag_report/planted.py": "import syncline.records.target"},
    "pictures are made of nothing of ours": {"pictures/planted.py": "import syncline.model.target"},
    "rules of replication stand below those of fetching, cluster and groups stand alone": {
        "core/fetching/planted.py": "import syncline.core.groups.target"
    },
    "throttles are decided from rates and lists alone": {"core/throttle/planted.py": "import syncline.records.target"},
    "lag is computed from numbers alone": {"core/lag/planted.py": "import syncline.records.target"},
    "lag is measured without knowing how requests are served": {
        "node/lag/planted.py": "import syncline.node.serving.dispatch"
    },
    "within replication, only the leader knows KIP-501": {
        "core/replication/acknowledgement.py": "import syncline.core.replication.slow_leader.target"
    },
    "the parts of a broker build on each other, and only its assembly knows all": {
        "node/throttle/planted.py": "import syncline.node.links.target"
    },
    "the parts of a log build on each other": {"storage/machine/planted.py": "import syncline.storage.segments.target"},
    "the parts of the simulated world build on each other": {
        "virtual/clients/planted.py": "import syncline.virtual.liveness.target"
    },
    "what clients may take is decided without knowing their requests": {
        "node/clients/planted.py": "import syncline.storage.segments.target"
    },
    "what moves may take of a broker is decided without knowing how they are served": {
        "node/throttle/planted.py": "import syncline.wire.target"
    },
    "parts of the pipeline build on each other, and only jobs know all": {
        "pipeline/decoding/planted.py": "import syncline.pipeline.client.target"
    },
    "only those parts of the pipeline that speak to Spark know it": {"pipeline/report/planted.py": "import pyspark"},
    "values of a schema registry are turned without brokers": {
        "pipeline/registry/planted.py": "import syncline.pipeline.client.target"
    },
    "the pipeline itself imports no pandas": {"pipeline/source/planted.py": "import pandas"},
    "no cycles": {
        "model/planted.py": "import syncline.model.target",
        "model/target.py": "import syncline.model.planted",
    },
}
# One contract of each kind that import-linter knows.
FIRST_OF_KIND: Final = {each["type"]: each["name"] for each in reversed(SETTINGS["contracts"])}
FORMS: Final = {
    "at the top": "{}\n",
    "in a function": "def late() -> None:\n    {}\n",
    "for annotations": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    {}\n",
}


# Lints whenever a line comes. Most of the command's time is its own start, and reading modules that have not changed.
LINTER: Final = """
import contextlib, io, json, sys
from importlinter.cli import lint_imports
for _ in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as report:
        status = lint_imports(no_logo=True, cache_dir="cache")
    print(json.dumps([status, report.getvalue()]), flush=True)
"""


def environment(root: Path) -> dict[str, str]:
    """Return what the linter of a tree finds."""
    return {**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200", "NO_COLOR": "1"}


def broken_contracts(status: int, report: str) -> list[str]:
    """Return the contracts that are broken according to a report, which names all of them."""
    verdicts = re.findall(r"^(.+) (KEPT|BROKEN)(?: \(.* ignored import.*\))?$", report, re.MULTILINE)
    assert [name for name, _ in verdicts] == CONTRACTS, report
    broken = [name for name, verdict in verdicts if verdict == "BROKEN"]
    assert (status == 0) == (not broken), f"the linter ended with {status}: {report}"
    return broken


class Copy:
    """A copy of the tree in which modules may be planted, and a linter that looks at it again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        shutil.copy(ROOT / "pyproject.toml", root)
        self._linter = subprocess.Popen(
            [sys.executable, "-c", LINTER],
            cwd=root,
            env=environment(root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lint(self) -> tuple[list[str], str]:
        """Return the contracts that the copy breaks, and the report."""
        assert self._linter.stdin is not None
        assert self._linter.stdout is not None
        self._linter.stdin.write("\n")
        self._linter.stdin.flush()
        answer = self._linter.stdout.readline()
        assert answer, "the linter has ended; its last words are on standard error"
        status, report = json.loads(answer)
        return broken_contracts(status, report), report

    def close(self) -> None:
        """End the linter."""
        self._linter.communicate()


def test_imports_keep_all_contracts() -> None:
    """The tree as it is; the report says which import is wrong."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    run = subprocess.run(command, cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, check=False)

    assert broken_contracts(run.returncode, run.stdout + run.stderr) == [], run.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Return a copy of the tree in which modules may be planted."""
    made = Copy(tmp_path_factory.mktemp("tree"))
    yield made
    made.close()


def planted(contract: str, form: str, copy: Copy) -> tuple[list[str], str]:
    """Return the contracts that are broken with the violation of one planted, and the report."""
    modules = {path: FORMS[form].format(statement) for path, statement in PLANTED[contract].items()}
    targets = {
        match.replace(".", "/") + ".py": ""
        for text in modules.values()
        for match in re.findall(r"syncline\.(\S+)", text)
    }
    files = {copy.root / "src" / "syncline" / path: text for path, text in {**targets, **modules}.items()}
    before = {path: path.read_text() for path in files if path.exists()}
    for path, text in files.items():
        path.write_text(before.get(path, "") + "\n" + text)
    try:
        return copy.lint()
    finally:
        for path in files:
            if path in before:
                path.write_text(before[path])
            else:
                path.unlink()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_contract_catches_what_breaks_it(contract: str, copy: Copy) -> None:
    """A contract without an entry in `PLANTED` fails here: nothing shows that it forbids anything."""
    broken, report = planted(contract, "at the top", copy)

    assert broken == [contract], report


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("contract", FIRST_OF_KIND.values())
def test_imports_count_wherever_they_stand(contract: str, form: str, copy: Copy) -> None:
    """Late ones, and those for annotations: for one contract of each kind, as the kinds read the same graph."""
    broken, report = planted(contract, form, copy)

    assert broken == [contract], report


def test_nothing_is_planted_for_a_contract_that_is_gone() -> None:
    """A contract that is renamed takes its violation along."""
    assert set(PLANTED) == set(CONTRACTS)
