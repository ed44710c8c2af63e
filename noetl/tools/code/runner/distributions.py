"""Distributions in the place of modules: `python-dateutil` is what is installed, `dateutil` what it brings."""

from __future__ import annotations

import importlib
import importlib.util
import re
from types import ModuleType

#: The name of a requirement: what may follow are extras, versions and markers.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*($|[\[<>=!~;@ ])")
_SEPARATORS = re.compile(r"[-_.]+")


def modules(entry: str) -> dict[str, ModuleType] | None:
    """The top-level modules of the installed distribution that `entry` names, by name; None where it names a module,
    or nothing that is installed."""
    found = _REQUIREMENT.match(entry)
    if found is None or _is_module(entry):
        return None
    named = _top_level(found[1])
    loaded = {name: one for name in named if (one := _loaded(name)) is not None}
    return loaded or None


def _is_module(entry: str) -> bool:
    """Whether the first name of `entry` can be imported."""
    top = entry.partition(".")[0].strip()
    try:
        return top.isidentifier() and importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _top_level(name: str) -> list[str]:
    """The modules that a distribution brings, names compared as PEP 503 says."""
    # Takes 20 ms, and few tasks need it.
    from importlib import metadata

    wanted = _normal(name)
    for distribution in metadata.distributions():
        if _normal(distribution.metadata["Name"] or "") == wanted:
            told = (distribution.read_text("top_level.txt") or "").split()
            return sorted(set(told or map(_first, map(str, distribution.files or ()))) - {""})
    return []


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def _first(file: str) -> str:
    """The module that a file of a distribution belongs to; empty where it is none's."""
    top, _, rest = file.partition("/")
    name = top if rest else top.removesuffix(".py") if top.endswith(".py") else top.partition(".")[0]
    is_code = file.endswith((".py", ".so", ".pyd"))
    return name if is_code and name.isidentifier() else ""


def _loaded(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
