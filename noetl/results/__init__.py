"""Results too large for the log, by content, on fsspec.

An adapter of `noetl.usecases.ports.Results`.
"""

from __future__ import annotations

from pathlib import Path

from noetl.results.files import FileResults
from noetl.usecases.ports import Results

__all__ = ["FileResults", "open_results"]


def open_results(url: str, scratch: Path | None = None) -> Results:
    """The result store below `url` (a path or an fsspec URL); temporary files go to `scratch`.
    Raises ConfigError."""
    return FileResults(url, scratch=scratch)
