"""Playbooks as people write them who come from elsewhere: they run as a user runs them, and so do their canonical forms."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests import services
from tests.playbooks.web import serving

AUTHORS = Path(__file__).parent / "authors"
#: Those that are run; the others are called.
FILES = sorted(file for file in AUTHORS.glob("*.yaml") if not file.read_text().startswith("# called:"))


@pytest.fixture
def web() -> Iterator[str]:
    with serving() as address:
        yield address


def noetl(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """`noetl` with these arguments in `folder`, where its home is, too."""
    environment = {**os.environ, "NOETL_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "noetl.cli", *argv]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def said(file: Path, word: str) -> Any:
    """What the head of a file says of `word`; None where it says nothing."""
    found = re.search(rf"^# {word}: (.*)$", file.read_text(), re.MULTILINE)
    return None if found is None else found[1]


def store_credential(folder: Path, url: str) -> None:
    parts = make_url(url)
    fields = {"host": parts.host, "port": parts.port, "user": parts.username, "database": parts.database}
    data = json.dumps({**fields, "password": parts.password or "none"})
    done = noetl(folder, "credential", "set", "harbour_db", "--type", "postgres", "--data", data)
    assert done.returncode == 0, done.stderr


def result(folder: Path, file: Path, web: str) -> Any:
    """What the run of a playbook prints as its result."""
    text = (folder / file.name).read_text()
    given = ["--set", f"web={web}"] if "web:" in text else []
    done = noetl(folder, "run", file.name, *given)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def codes(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """File and code of each problem that was printed."""
    return re.findall(r"^(\w+\.yaml):.*\[(NOETL\d+)\]", done.stdout + done.stderr, re.MULTILINE)


def test_what_authors_write_runs_as_they_meant_and_has_a_canonical_form(
    tmp_path: Path, web: str, postgres_server: services.Postgres
) -> None:
    for one in AUTHORS.glob("*.yaml"):
        shutil.copy(one, tmp_path)
    names = sorted(one.name for one in AUTHORS.glob("*.yaml"))
    checked = noetl(tmp_path, "validate", *names)
    wanted = [(file.name, code) for file in FILES for code in (said(file, "problems") or "").split()]
    assert (checked.returncode, codes(checked)) == (0, wanted), checked.stdout + checked.stderr
    url = postgres_server.create()
    try:
        store_credential(tmp_path, url)
        found = {file.name: result(tmp_path, file, web) for file in FILES}
    finally:
        postgres_server.drop(url)
    assert found == {file.name: json.loads(said(file, "result")) for file in FILES}
    migrated = noetl(tmp_path, "migrate", "--write", *names)
    assert (migrated.returncode, (migrated.stdout + migrated.stderr).count("changed in")) == (0, len(names))
    strict = noetl(tmp_path, "validate", "--strict", *names)
    assert strict.returncode == 0, strict.stdout + strict.stderr
