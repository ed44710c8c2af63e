"""Settings of Hypothesis, and the modules that the tests of this folder share.

The long profile tries other examples each time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.budget import examples, profile

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

settings.register_profile(
    "properties",
    # Whole worlds, a tenth of a second each; what is cheap says how many it tries.
    max_examples=examples(25),
    derandomize=profile() != "long",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("properties")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All examples together may take long, and the machine may have much else to do."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(6_000 if profile() == "long" else 1_800))
