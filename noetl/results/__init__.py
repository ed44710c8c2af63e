"""Results too large for the log, by content, on fsspec.

An adapter of `noetl.usecases.ports.Results`.
"""

from __future__ import annotations

from noetl.results.files import FileResults
from noetl.results.memory import MemoryResults

__all__ = ["FileResults", "MemoryResults"]
