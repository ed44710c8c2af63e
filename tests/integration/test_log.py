"""What the services say on standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import zygote

SERVICE = """
import logging
from noetl import bootstrap
from noetl.config import Settings
bootstrap.open_log(Settings.from_env())
log = logging.getLogger("noetl.somewhere")
log.info("not at this level")
try:
    [][1]
except IndexError:
    log.exception("No day %d in\\n%s", 7, "Zürich")
"""


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., list[str]]:
    """What a service writes, with these settings."""
    (tmp_path / "service.py").write_text(SERVICE, encoding="utf-8")

    def run(**settings: str) -> list[str]:
        environment = {f"NOETL_{name.upper()}": value for name, value in settings.items()}
        ended = zygote.run(
            ["service"],
            cwd=tmp_path,
            env={"PATH": "", **environment},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return str(ended.stderr).splitlines()

    return run


def test_people_read_lines(said: Callable[..., list[str]]) -> None:
    first, *rest = said()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:,]+ ERROR noetl\.somewhere: No day 7 in", first)
    assert rest[-1] == "IndexError: list index out of range"


def test_machines_read_one_json_object_a_line(said: Callable[..., list[str]]) -> None:
    (line,) = said(log_json="true")
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == (
        "ERROR",
        "noetl.somewhere",
        "No day 7 in\nZürich",
    )
    assert told["at"].endswith("+00:00")
    assert told["error"].splitlines()[-1] == "IndexError: list index out of range"
