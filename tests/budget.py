"""How much the tests try, by the profile that `NOETL_TEST_PROFILE` names.

`quick` is what `make test` runs: each promise once, in minutes. `full` is everything, and what
plain `pytest` runs. `long` searches for hours. A variable of a budget's own, such as
`NOETL_TEST_KILLS`, overrides its profile.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

Profile: TypeAlias = Literal["quick", "full", "long"]
#: From the cheapest to the most thorough.
PROFILES: tuple[Profile, ...] = get_args(Profile)


def profile() -> Profile:
    """The profile of this run. Raises ValueError where the environment names one that does not
    exist."""
    name = os.environ.get("NOETL_TEST_PROFILE") or "full"
    for known in PROFILES:
        if known == name:
            return known
    raise ValueError(f"NOETL_TEST_PROFILE is {name!r}; it must be one of {', '.join(PROFILES)}.")


def budget(variable: str, *, quick: int, full: int, long: int) -> int:
    """The number that the environment's `variable` states, or else the profile's."""
    stated = os.environ.get(variable)
    return int(stated) if stated else {"quick": quick, "full": full, "long": long}[profile()]


def examples(number: int) -> int:
    """How many examples Hypothesis tries where the full profile tries `number`."""
    return max(5, {"quick": number // 5, "full": number, "long": 30 * number}[profile()])
