"""What processes import when they start, which every start pays for: counted, not timed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import GUARD_S

#: What starts → how.
STARTS: Mapping[str, str] = {
    "a worker": "import noetl.celery",
    "the API": "import noetl.wsgi",
    "a run": "from noetl.cli.main import noetl; noetl.get_command(None, 'run')",
}
#: What no start needs, and why.
UNNEEDED: Mapping[str, str] = {
    "alembic": "only a database that is empty or older needs it",
    "cirq": "only quantum tasks need it, and it takes seconds",
    "duckdb": "it takes 90 ms, and few tasks keep tables",
    "fsspec": "it takes asyncio and TLS, and most results are small",
    "google.protobuf": "only filters, and checks of SQL, need it",
    "limits": "only tokens with a rate of their own need it",
    "numpy": "only quantum tasks need it",
    "pandas": "only code of tasks needs it, in processes of its own",
    "psycopg2": "a home on SQLite needs no driver of PostgreSQL",
    "pygments": "only the text of a playbook is coloured",
    "requests": "it takes 50 ms, and only who asks other servers needs it",
    "urllib3": "it comes with requests",
}
#: Models of these packages are built when they are first used. Generic ones have no state of their
#: own.
DEFERRED = ("noetl.api.", "noetl.dsl.document.")
GENERIC = {"noetl.api.accounts.SectionView", "noetl.api.bodies.RootModel[dict[str, Any]]"}
#: Collections of garbage during a start; without a pause there are two hundred.
MOST_COLLECTIONS = 40

_REPORT = """
import gc, json, sys
begun = []
gc.callbacks.append(lambda phase, _: begun.append(phase) if phase == "start" else None)
exec(sys.argv[1])
collections = len(begun)
from pydantic import BaseModel
built, todo = set(), [BaseModel]
while todo:
    classes = type.__subclasses__(todo.pop())
    todo += classes
    built |= {f"{one.__module__}.{one.__name__}" for one in classes if one.__pydantic_complete__}
print(json.dumps({"modules": sorted(sys.modules), "built": sorted(built), "collections": collections}))
"""


def report(start: str, home: Path) -> dict[str, Any]:
    """What a new process has imported and built, in an environment without settings of ours."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, start],
        env={**others, "NOETL_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=GUARD_S,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("what", STARTS)
def test_a_start_imports_and_builds_only_what_it_needs(what: str, tmp_path: Path) -> None:
    found = report(STARTS[what], tmp_path)
    assert {name: why for name, why in UNNEEDED.items() if name in found["modules"]} == {}
    assert {name for name in found["built"] if name.startswith(DEFERRED)} <= GENERIC
    assert found["collections"] < MOST_COLLECTIONS
