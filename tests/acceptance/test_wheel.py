"""A wheel is all that an installation has: it brings the migrations, the settings of Celery and the tools."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.store.migrate import HEAD

ROOT = Path(__file__).parents[2]
CODE = """
import importlib.metadata, sys
import celeryconfig, noetl
from noetl.store import migrate
target, url = sys.argv[1:]
for module in (celeryconfig, noetl, migrate):
    assert module.__file__.startswith(target), module.__file__
assert migrate.upgrade(url) and migrate.check(url) == []
names = {one.name for one in importlib.metadata.entry_points(group="noetl.tools")}
assert {"python", "http", "shell", "duckdb", "postgres", "noop"} <= names, names
print(migrate.current(url))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the wheel holds, and nothing else of NoETL."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)], check=True)
    wheel = next(folder.glob("noetl-*.whl"))
    target = folder / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True)
    return target


@pytest.mark.full("a build and an installation")
@pytest.mark.acceptance
@pytest.mark.postgres
def test_an_installed_wheel_migrates_a_database(installed: Path, empty_postgres_url: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    argv = [sys.executable, "-c", CODE, str(installed), empty_postgres_url]
    done = subprocess.run(
        argv, cwd=installed, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == HEAD
