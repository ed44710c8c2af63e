"""References to results that are too large for the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noetl.facts.json import Json

#: The value of `kind` in the mapping that stands for a result kept outside of the log.
RESULT_REF = "result_ref"


def is_reference(value: Json) -> bool:
    """Whether `value` is `{kind: result_ref, ref: noetl://…, …}`."""
    return (
        isinstance(value, Mapping) and value.get("kind") == RESULT_REF and isinstance(value.get("ref"), str)
    )


class Load(Protocol):
    """Fetches what a reference stands for. Content-addressed, hence the same at every replay."""

    def __call__(self, reference: Mapping[str, Any], /) -> Json: ...
