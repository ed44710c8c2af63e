"""The other spellings of the keys of tools: those that a kind declares, and those of every kind.

Parts of documents declare theirs themselves (`noetl.dsl.document`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.net.model import KindInfo, Spelling

#: Of every kind that has a credential.
_OF_AUTH: Final = {"credential": Spelling("auth")}
#: Of every kind that has a timeout of its own, and of all others.
_OF_TIMEOUT: Final = {"timeout_seconds": Spelling("timeout", unless=("spec/timeout",))}
_OF_DEADLINE: Final = {"timeout": Spelling("spec/timeout"), "timeout_seconds": Spelling("spec/timeout")}


def of_kind(kind: KindInfo) -> Mapping[str, Spelling]:
    """The spellings of the keys of a tool: the way to the key (`source/type`) → what it means. All
    of them may stand under `spec` as well."""
    known = kind.schema.get("properties", {})
    found = dict(kind.spellings)
    if "auth" in known:
        found |= _OF_AUTH
    if "timeout" in known:
        found |= _OF_TIMEOUT
    elif kind.schema.get("additionalProperties") is False:
        found |= _OF_DEADLINE
    return {written: spelling for written, spelling in found.items() if written not in known}
