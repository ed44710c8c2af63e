"""The tests of the plug-in are its own: they run beside NoETL, not among these."""

from __future__ import annotations

collect_ignore = ["plugin"]
