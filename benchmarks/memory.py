"""What the whole stack weighs while it does nothing: `noetl up` with all its children."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.servers import process, until
from tests.ports import free_port

LIMIT_MB = 350.0
#: Seconds after the start: everything has been imported and the children stand by.
SETTLE_S = 6.0


def idle_memory() -> dict[str, Any]:
    """PSS in MB of `noetl up` (SQLite, a private Redis, API, scheduler, workers, sweeper,
    Flower)."""
    with tempfile.TemporaryDirectory(prefix="noetl-bench-up-") as folder:
        home = Path(folder)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        environment = {
            **kept,
            "NOETL_HOME": str(home / "home"),
            "NOETL_FLOWER_PORT": str(free_port()),
        }
        with process(["noetl", "up", "--port", str(free_port())], home / "up.log", environment) as up:
            until("noetl up", (home / "home" / "up.json").exists)
            time.sleep(SETTLE_S)
            processes = machine.pss(up.pid)
    return {
        "pss_mb": round(sum(one["pss_mb"] for one in processes), 1),
        "limit_mb": LIMIT_MB,
        "processes": sorted(processes, key=lambda one: -one["pss_mb"]),
    }
