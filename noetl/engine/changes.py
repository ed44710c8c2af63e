"""`replace` for states and runs: what follows from one fact changes a few of their many fields.

`dataclasses.replace` reads and sets each field by name, which took a fifth of a turn; to copy the
dictionary of a class without slots takes a tenth of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The types of changes are checked as those of any other data class.
    from dataclasses import replace as replace
else:
    import dataclasses

    def replace(one, /, **changes):
        """A copy of a data class, with `changes`. Raises TypeError for a field that it does not
        have."""
        fields = getattr(one, "__dict__", None)
        if fields is None:
            return dataclasses.replace(one, **changes)
        copy = object.__new__(type(one))
        values = copy.__dict__
        values.update(fields, **changes)
        if len(values) != len(fields):
            unknown = ", ".join(sorted(changes.keys() - fields.keys()))
            raise TypeError(f"{type(one).__name__} has no {unknown}")
        return copy
