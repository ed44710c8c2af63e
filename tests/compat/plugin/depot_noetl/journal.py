"""What the tools of the depot did, one line each, for whoever looks for trouble."""

from __future__ import annotations

import os


def write(line: str) -> None:
    """Adds a line to the file that DEPOT_JOURNAL names; nothing where there is none."""
    path = os.environ.get("DEPOT_JOURNAL")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
