"""What the services say on standard error."""

from __future__ import annotations

import json
import re
import subprocess
import sys

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


def said(**settings: str) -> list[str]:
    environment = {f"NOETL_{name.upper()}": value for name, value in settings.items()}
    ended = subprocess.run(
        [sys.executable, "-c", SERVICE],
        env={"PATH": "", "PYTHONUTF8": "1", **environment},
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=20,
    )
    return ended.stderr.splitlines()


def test_people_read_lines() -> None:
    first, *rest = said()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:,]+ ERROR noetl\.somewhere: No day 7 in", first)
    assert rest[-1] == "IndexError: list index out of range"


def test_machines_read_one_json_object_a_line() -> None:
    (line,) = said(log_json="true")
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == (
        "ERROR",
        "noetl.somewhere",
        "No day 7 in\nZürich",
    )
    assert told["at"].endswith("+00:00")
    assert told["error"].splitlines()[-1] == "IndexError: list index out of range"
