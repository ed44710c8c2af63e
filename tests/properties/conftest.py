"""Settings of Hypothesis, and the modules that the tests of this folder share.

The long profile tries other examples each time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

from tests.budget import examples, profile

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "properties",
    max_examples=examples(60),
    derandomize=profile() != "long",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("properties")
