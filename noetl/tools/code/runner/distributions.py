"""Finds modules by the name of their distribution: `pip install python-dateutil` brings the module
`dateutil`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
from types import ModuleType

#: The name of a requirement: what may follow are extras, versions and markers.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*($|[\[<>=!~;@ ])")
_SEPARATORS = re.compile(r"[-_.]+")


def modules(entry: str) -> dict[str, ModuleType] | None:
    """The top-level modules of the installed distribution that `entry` names, by name; None where
    it names a module, or nothing that is installed."""
    requirement = _REQUIREMENT.match(entry)
    if requirement is None or _is_module(entry):
        return None
    # Takes some tenths of a second, and few tasks need it.
    from importlib import metadata

    wanted, loaded = _normal(requirement[1]), dict[str, ModuleType]()
    for name, distributions in sorted(metadata.packages_distributions().items()):
        if name.isidentifier() and wanted in map(_normal, distributions):
            with contextlib.suppress(ImportError):
                loaded[name] = importlib.import_module(name)
    return loaded or None


def _is_module(entry: str) -> bool:
    """Whether the first name of `entry` can be imported."""
    top = entry.partition(".")[0].strip()
    try:
        return top.isidentifier() and importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _normal(name: str) -> str:
    """A name as PEP 503 compares it."""
    return _SEPARATORS.sub("-", name).lower()
