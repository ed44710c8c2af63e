"""What may stay of what `clocks.py` finds: by file and rule, how often and why. The number falls,
and never rises.

    python -m tests.house.exceptions            # what is wrong with exceptions.toml
    python -m tests.house.exceptions --write    # counts anew: reasons stay, the ceiling only falls
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house.clocks import ADVICE, Finding, find

FILE = Path(__file__).with_name("exceptions.toml")
#: The reason that is written where nobody has given one yet.
PENDING = "being mended"

Place = tuple[str, str]


@dataclass(frozen=True)
class Allowed:
    file: str
    rule: str
    count: int
    reason: str = ""


def read(text: str) -> tuple[int, list[Allowed]]:
    """The ceiling of all exceptions together, and the exceptions. Raises TypeError for keys that
    there are not."""
    document: dict[str, Any] = tomllib.loads(text)
    return document["ceiling"], [Allowed(**one) for one in document.get("exception", [])]


def complaints(found: Sequence[Finding], allowed: Sequence[Allowed], ceiling: int) -> Iterator[str]:
    """What has to be mended: in the tests, or in the list."""
    listed = {(one.file, one.rule): one.count for one in allowed}
    counts = Counter[Place]((one.file, one.rule) for one in found)
    for place in sorted(counts.keys() | listed.keys()):
        yield from _compare(place, counts[place], listed.get(place, 0), found)
    yield from _look_at_list(allowed)
    total = sum(one.count for one in allowed)
    if total > ceiling:
        yield f"exceptions.toml lists {total} exceptions, and their number may not rise above {ceiling}"
    if total < ceiling:
        yield f"exceptions.toml lists {total} exceptions: lower its ceiling from {ceiling} to {total}"


def _compare(place: Place, count: int, most: int, found: Iterable[Finding]) -> Iterator[str]:
    file, rule = place
    if count > most:
        for one in found:
            if (one.file, one.rule) == place:
                yield f"{file}:{one.line}: {rule}: `{one.text}`: {ADVICE[rule]}"
    if count > most > 0:
        yield f"{file}: {rule}: exceptions.toml allows {most} of these {count}"
    if count < most:
        what = f"lower the number to {count}" if count else "take the entry out"
        yield f"{file}: {rule}: exceptions.toml allows {most}, and there are {count}: {what}"


def _look_at_list(allowed: Sequence[Allowed]) -> Iterator[str]:
    for (file, rule), times in Counter((one.file, one.rule) for one in allowed).items():
        if times > 1:
            yield f"{file}: {rule}: stands {times} times in exceptions.toml"
    for one in allowed:
        if one.rule not in ADVICE:
            yield f"{one.file}: {one.rule}: there is no such rule"
        if not one.reason.strip():
            yield f"{one.file}: {one.rule}: an exception needs a reason"


def write(found: Iterable[Finding], before: str | None) -> str:
    """The list as it stands now. Those that were listed keep their reasons."""
    ceiling, allowed = read(before) if before else (sys.maxsize, [])
    reasons: Mapping[Place, str] = {(one.file, one.rule): one.reason for one in allowed}
    counts = Counter[Place]((one.file, one.rule) for one in found)
    entries = [
        f"\n[[exception]]\nfile = {json.dumps(file)}\nrule = {json.dumps(rule)}\ncount = {count}\n"
        f"reason = {json.dumps(reasons.get((file, rule)) or PENDING, ensure_ascii=False)}\n"
        for (file, rule), count in sorted(counts.items())
    ]
    head = "# What may stay of what tests/house/clocks.py finds, and why. The ceiling is their sum, and only falls.\n"
    return "".join([head, f"ceiling = {min(ceiling, counts.total())}\n", *entries])


def main() -> int:
    """Says what is wrong with the list, or writes it anew."""
    before = FILE.read_text(encoding="utf-8") if FILE.exists() else None
    found = list(find())
    if "--write" in sys.argv[1:] or before is None:
        before = write(found, before)
        FILE.write_text(before, encoding="utf-8")
    ceiling, allowed = read(before)
    wrong = list(complaints(found, allowed, ceiling))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
