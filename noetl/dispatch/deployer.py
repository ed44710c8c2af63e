"""The settings of Celery that hold here: NoETL's own, and a deployer's `celeryconfig.py` over them.

The file may change everything that keeps no guarantee (see `guarantees`). It is looked for in the
working directory and then along `sys.path`, so that all processes of a deployment find the same
one, however they were started.
"""

from __future__ import annotations
import __future__

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any, Final

from noetl.dispatch import settings
from noetl.dispatch.guarantees import contradictions
from noetl.errors import ConfigError

#: What names of a module stand for besides settings: modules, and `from __future__ import
#: annotations`.
_NO_SETTINGS: Final = (ModuleType, type(__future__.annotations))

#: The module that a deployer's settings are read from.
MODULE: Final = "celeryconfig"

#: How much longer than the longest task the broker waits, where that takes more than the week of
#: `settings`.
_DAY_S: Final = 86_400.0

#: Settings of Celery that are NoETL's to make, and the variables that they are made of.
_OURS: Final = {
    "broker_url": "NOETL_BROKER_URL",
    "broker_read_url": "NOETL_BROKER_URL",
    "broker_write_url": "NOETL_BROKER_URL",
    "result_backend": "NOETL_RESULT_BACKEND",
}


@dataclass(frozen=True, slots=True)
class DeployerSettings:
    """What a deployer's file says, by today's names of the settings. `path` is empty where there is
    no file."""

    path: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def read() -> DeployerSettings:
    """The deployer's file. Raises ConfigError where it cannot be executed."""
    found = PathFinder.find_spec(MODULE, ["", *sys.path])
    if found is None or found.loader is None:
        return DeployerSettings()
    path = found.origin or MODULE
    module = _execute(found, path)
    return DeployerSettings(path, dict(_rename(module)))


def _execute(spec: ModuleSpec, path: str) -> ModuleType:
    module = module_from_spec(spec)
    assert spec.loader is not None
    try:
        spec.loader.exec_module(module)
    # Broad on purpose: the file is somebody's program, and whatever stops it is named.
    except Exception as error:
        raise ConfigError(
            f"{path}, which lies over NoETL's settings of Celery, cannot be read ({type(error).__name__}: "
            f"{error}); mend it, or start in another directory."
        ) from error
    return module


def _rename(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The settings of a module under today's names, those that are written so last: they win.

    Celery, which knows the names, is imported here and nowhere above: most processes have no such
    file.
    """
    from celery.app.defaults import _TO_NEW_KEY, SETTING_KEYS  # type: ignore[attr-defined]

    given = _public(module)
    for name, value in given.items():
        # CELERY_TASK_ACKS_LATE is how Django's projects write task_acks_late, CELERY_ACKS_LATE an
        # older name of it.
        plain = name.removeprefix("CELERY_").lower()
        if name.isupper() and (name in _TO_NEW_KEY or plain in SETTING_KEYS):
            yield _TO_NEW_KEY.get(name, plain), value
    for name, value in given.items():
        if not name.isupper():
            yield name, value


def _public(module: ModuleType) -> dict[str, Any]:
    """What a module assigns, without what it imports as a whole."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, _NO_SETTINGS)
    }


def celery_settings(broker_url: str, backend: str | None, longest_task_s: float) -> dict[str, Any]:
    """Every setting for an app on this broker whose tasks may take so many seconds. Raises
    ConfigError where the deployer's file contradicts a guarantee: one sentence that names the file,
    the settings and the values needed."""
    deployed = read()
    merged = _merge(base(longest_task_s), deployed.values)
    faults = [
        *_foreign(deployed.values, broker_url, backend),
        *(
            f"{one.name} is {one.value(merged)!r} and has to be {one.needs}"
            for one in contradictions(merged, longest_task_s)
        ),
    ]
    if faults:
        raise ConfigError(
            f"{deployed.path} contradicts what NoETL promises: {'; '.join(faults)}; change it there, or "
            "start in a directory without that file."
        )
    return merged


def base(longest_task_s: float) -> dict[str, Any]:
    """NoETL's own settings, for tasks that take so many seconds at most."""
    ours = _public(settings)
    options = ours["broker_transport_options"]
    patient = max(options["visibility_timeout"], longest_task_s + _DAY_S)
    return {**ours, "broker_transport_options": {**options, "visibility_timeout": patient}}


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings are merged key by key: who names one option does not give up the others."""
    merged = {**base, **over}
    for name, value in base.items():
        if isinstance(value, Mapping) and isinstance(over.get(name), Mapping):
            merged[name] = {**value, **over[name]}
    return merged


def _foreign(given: Mapping[str, Any], broker_url: str, backend: str | None) -> Iterator[str]:
    """Addresses that contradict NoETL's own settings."""
    for name, variable in _OURS.items():
        ours = backend if variable == "NOETL_RESULT_BACKEND" else broker_url
        if given.get(name) not in (None, ours):
            yield f"{name} is set, and NoETL reads {variable} instead"
