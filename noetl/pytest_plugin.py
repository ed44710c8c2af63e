"""What pytest loads where NoETL is installed: tests of playbooks (`orders.test.yaml`) are collected
beside those of Python. `-p no:noetl` turns it off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector of a file of tests; None for everything else."""
    if not file_path.name.endswith((".test.yaml", ".test.yml")):
        return None
    # Who has no such files is not to wait for the engine.
    from noetl.trial.pytest_items import collect

    return collect(file_path, parent)
