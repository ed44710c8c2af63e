"""Parts of a result by their paths, as templates would read them."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.expressions.chains import Chain, path_of
from noetl.expressions.follow import follow
from noetl.expressions.members import Callee
from noetl.expressions.results import of_task
from noetl.expressions.undefined import Undefined
from noetl.facts.json import Json
from noetl.facts.reference import Load, opened, plain


def part_of(value: Json, path: str, load: Load) -> Json:
    """What `path` names in `value`, as it is there: references in it stay. Raises KeyError where it names nothing, and
    what `load` raises."""
    found = follow({"": value}, Chain("", path_of(path) or ()), load)
    if isinstance(found, Undefined | Callee):
        raise KeyError(path)
    return found


def selected(value: Json, paths: Mapping[str, str], load: Load) -> dict[str, Json]:
    """Name → what `path` (`data.rows[0].id`) names in the result `value`, without references; names whose path names
    nothing are left out. Raises what `load` raises."""
    found = {
        name: follow({"": of_task(value)}, Chain("", path_of(path) or ()), load)
        for name, path in paths.items()
    }
    return {
        name: opened(plain(part), load)
        for name, part in found.items()
        if not isinstance(part, Undefined | Callee)
    }
