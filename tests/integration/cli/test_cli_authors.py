"""Playbooks as people write them who come from elsewhere: they run as a user runs them, and have a
canonical form."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests import services
from tests.playbooks.web import serving

from .conftest import Cli, Ended

AUTHORS = Path(__file__).parent / "authors"
NAMES = sorted(file.name for file in AUTHORS.glob("*.yaml"))
#: The one that a process of its own runs: it calls another one.
IN_A_PROCESS = "caller.yaml"


@pytest.fixture(autouse=True)
def playbooks(home: Path) -> None:
    """They are the only files of the working directory."""
    for file in Path().iterdir():
        file.unlink()
    for name in NAMES:
        shutil.copy(AUTHORS / name, name)


def said(name: str, word: str) -> str:
    """What the head of a playbook says of `word`; empty where it says nothing."""
    found = re.search(rf"^# {word}: (.*)$", (AUTHORS / name).read_text(), re.MULTILINE)
    return "" if found is None else found[1]


def results() -> dict[str, Any]:
    """What each of them ends with that is not there to be called."""
    return {name: json.loads(text) for name in NAMES if (text := said(name, "result"))}


def codes(ended: Ended) -> list[tuple[str, str]]:
    """File and code of each problem that was printed."""
    return re.findall(r"^(\w+\.yaml):.*\[(NOETL\d+)\]", ended.out + ended.err, re.MULTILINE)


def run(cli: Cli, name: str, web: str) -> Any:
    given = ["--set", f"web={web}"] if "web:" in Path(name).read_text() else []
    ended = cli("run", name, *given)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def store_credential(cli: Cli, url: str) -> None:
    parts = make_url(url)
    fields = {"host": parts.host, "port": parts.port, "user": parts.username, "database": parts.database}
    data = json.dumps({**fields, "password": parts.password or "none"})
    assert cli("credential", "set", "harbour_db", "--type", "postgres", "--data", data).code == 0


def test_what_authors_write_runs_as_they_meant(cli: Cli, postgres_server: services.Postgres) -> None:
    url = postgres_server.create()
    try:
        store_credential(cli, url)
        with serving() as web:
            found = {name: run(cli, name, web) for name in results() if name != IN_A_PROCESS}
    finally:
        postgres_server.drop(url)
    assert found == {name: result for name, result in results().items() if name != IN_A_PROCESS}


def test_what_authors_write_is_validated_without_a_word_and_has_a_canonical_form(cli: Cli) -> None:
    checked = cli("validate", *NAMES)
    assert (checked.code, codes(checked)) == (
        0,
        [(name, code) for name in NAMES for code in said(name, "problems").split()],
    )
    migrated = cli("migrate", "--write", *NAMES)
    assert (migrated.code, migrated.err.count("changed in")) == (0, len(NAMES))
    strict = cli("validate", "--strict", *NAMES)
    assert (strict.code, codes(strict)) == (0, [])


def test_what_authors_write_runs_as_a_program(
    program: Callable[..., subprocess.Popen[str]], home: Path
) -> None:
    running = program("run", IN_A_PROCESS)
    out, err = running.communicate()
    assert running.returncode == 0, err
    assert json.loads(out) == results()[IN_A_PROCESS]
