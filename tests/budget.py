"""Which tests run, by the profile that `NOETL_TEST_PROFILE` names, and how much each of them tries.

`quick` is what `make test` runs, `rest` what `full` has besides, except for the rules that
`make check` tries: all three are `full`, which plain `pytest` runs. `.ci/run` runs the three, one
behind the other. `long` searches for hours. A variable of a budget's own, such as
`NOETL_TEST_KILLS`, overrides the profile.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

Profile: TypeAlias = Literal["quick", "rest", "full", "long"]
#: How much a test tries, from the cheapest to the most thorough.
Level: TypeAlias = Literal["quick", "full", "long"]


def profile() -> Profile:
    """The profile of this run. Raises ValueError where the environment names one that does not
    exist."""
    name = os.environ.get("NOETL_TEST_PROFILE") or "full"
    known: tuple[Profile, ...] = get_args(Profile)
    for each in known:
        if each == name:
            return each
    raise ValueError(f"NOETL_TEST_PROFILE is {name!r}; it must be one of {', '.join(known)}.")


def level() -> Level:
    """How much the tests of this run try. Raises ValueError like `profile`."""
    match profile():
        case "quick":
            return "quick"
        case "rest" | "full":
            return "full"
        case "long":
            return "long"


#: Where whole stacks are tested, and browsers.
STACKS = ("tests/acceptance/", "tests/browser/")
#: Besides them: what plays many playbooks, old histories, or all that the documentation says; the
#: commands; and what tools do to files, processes and circuits.
SLOWER = (
    *STACKS,
    "tests/compat/",
    "tests/docs/",
    "tests/histories/",
    "tests/integration/cli/",
    "tests/integration/test_",
    "tests/migrations/",
    "tests/playbooks/",
    "tests/quantum/",
    "tests/unit/tools/quantum/",
)


#: What `make check` runs.
_RULES = "tests/house/"
#: Marks of what `quick` leaves out, wherever it stands.
_NEEDS_MORE = {"full", "postgres", "redis", "rabbitmq"}
#: Where tests get such a mark from their fixtures.
_ON_ALL_STORES = "tests/contract/"


def may_have_chosen(path: str, text: str, run: Profile) -> bool:
    """Whether a run of this profile may have a test of this file: importing it costs more than a
    look at its text."""
    match run:
        case "quick":
            return not path.startswith(SLOWER) or "mark.quick" in text
        case "rest":
            return path.startswith((*SLOWER, _ON_ALL_STORES)) or any(
                f"mark.{name}" in text for name in _NEEDS_MORE
            )
        case "full" | "long":
            return True


def is_chosen(nodeid: str, marks: set[str], run: Profile) -> bool:
    """Whether a run of this profile has a test with this id and these marks.

    `full` and `long` tests are left out of what is quicker. So are those of what is slower, and
    those that ask again of PostgreSQL or Redis what was asked of SQLite or of memory, unless they
    are marked `quick`."""
    is_quick = "quick" in marks or not (marks & _NEEDS_MORE or nodeid.startswith(SLOWER))
    match run:
        case "quick" | "rest" if nodeid.startswith(_RULES):
            return False
        case "quick":
            return is_quick and "long" not in marks
        case "rest":
            return not is_quick and "long" not in marks
        case "full":
            return "long" not in marks
        case "long":
            return True


def budget(variable: str, *, quick: int, full: int, long: int) -> int:
    """The number that the environment's `variable` states, or else that of this run's level."""
    stated = os.environ.get(variable)
    return int(stated) if stated else {"quick": quick, "full": full, "long": long}[level()]


def examples(number: int) -> int:
    """How many examples Hypothesis tries where a full run tries `number`."""
    return max(5, {"quick": number // 5, "full": number, "long": 30 * number}[level()])
