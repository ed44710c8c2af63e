"""The provider `depot`: files named `<name>.secret` below the directory that the settings name."""

from __future__ import annotations

import json

from noetl.errors import ToolError
from noetl.tools.secret_sources import SourceSettings
from noetl.usecases.secrets import Secret


class Depot:
    """Secrets by name: JSON with `versions`, newest last."""

    keep_s = 0.0

    def __init__(self, settings: SourceSettings) -> None:
        self._directory = settings.directory
        self._prefix = settings.prefix
        self._variables = settings.variables

    def read(self, name: str, version: str | None) -> Secret:
        if self._directory is None:
            raise ToolError("auth", "The depot gives nothing: it has no directory.", type="ProviderOff")
        path = self._directory / f"{name}.secret"
        if not path.is_file():
            raise ToolError("auth", f"The depot has no {name!r}.", type="UnknownSecret")
        versions = json.loads(path.read_text(encoding="utf-8"))["versions"]
        newest = str(len(versions)) if version is None else version
        return Secret(versions[int(newest) - 1], newest)

    def has(self, name: str) -> bool:
        return self._directory is not None and (self._directory / f"{name}.secret").is_file()
