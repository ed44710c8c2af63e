"""`noetl credential set` where somebody sits at a terminal, and where nobody does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

import pytest

from noetl import bootstrap
from noetl.cli.process import open_runtime
from noetl.config import Settings
from noetl.facts.json import JsonMap
from noetl.usecases import credentials
from tests.waiting import GUARD_S

from .conftest import Cli

POSTGRES = {
    "host": "db",
    "port": "5432",
    "database": "dw",
    "user": "etl",
    "password": "s3cret",
    "sslmode": "",
    "name of another field; Return ends": "",
}


@pytest.mark.parametrize(
    ("kind", "answers", "fields"),
    [
        ("postgres", POSTGRES, {"host": "db", "port": 5432, "database": "dw", "user": "etl", "password": "s3cret"}),
        ("bearer", {"token": "s3cret"}, {"token": "s3cret"}),
    ],
)  # fmt: skip
def test_fields_are_asked_for_and_secrets_are_not_shown(
    program: Callable[..., subprocess.Popen[str]], kind: str, answers: Mapping[str, str], fields: JsonMap
) -> None:
    keyboard, terminal = os.openpty()
    setting = program("credential", "set", "warehouse", "--type", kind, stdin=terminal, stderr=terminal)
    shown = ""
    for question, answer in answers.items():
        while not shown.endswith(f"{question}: "):
            shown += os.read(keyboard, 1000).decode()
        os.write(keyboard, f"{answer}\n".encode())
    out, _ = setting.communicate(timeout=GUARD_S)
    shown += os.read(keyboard, 1000).decode()
    os.close(terminal)
    os.close(keyboard)
    assert (setting.returncode, out) == (0, "Credential warehouse is set.\n")
    assert "s3cret" not in shown
    decrypt = bootstrap.keys(Settings.from_env()).vault().decrypt
    with open_runtime() as rt:
        (row,) = credentials.credentials(rt)
        assert decrypt(row.data) == fields


def test_nobody_is_asked_where_nobody_sits(cli: Cli) -> None:
    refused = cli("credential", "set", "warehouse", "--type", "postgres")
    assert refused.code == 2
    assert "Give the fields with --data" in refused.err
