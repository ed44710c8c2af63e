"""The provider `file`: files below one directory, as orchestrators mount them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from noetl.errors import ToolError
from noetl.tools.secrets.sources import SourceSettings
from noetl.usecases.secrets import Secret

#: Bytes of a file; a secret is no data set.
LARGEST: Final = 65_536
#: Others may neither read nor change it, the group may not change it.
_OPEN: Final = stat.S_IRWXO | stat.S_IWGRP


class Files:
    """Secrets by the name of their file, relative to the directory. Line ends at the end are no
    part of them."""

    keep_s = 0.0

    def __init__(self, settings: SourceSettings) -> None:
        self._root = settings.directory

    def read(self, name: str, version: str | None) -> Secret:
        """See `noetl.usecases.secrets.Provider`. Raises ToolError where the file may not, or
        cannot, be read."""
        if version is not None:
            raise ToolError("client_error", "The provider file keeps no versions; leave `version` out.")
        path = self._find(name)
        if path is None:
            raise _unusable(name, "there is no such file below NOETL_SECRETS_DIR")
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & _OPEN:
                    raise _unusable(
                        name,
                        f"others may read or change it (mode {mode:o}); make that 600, or 440 for a group",
                    )
                data = file.read(LARGEST + 1)
        except OSError as error:
            raise _unusable(name, f"it cannot be read ({error.strerror})") from None
        if len(data) > LARGEST:
            raise _unusable(name, f"it is larger than {LARGEST:,} bytes")
        try:
            return Secret(data.decode().rstrip("\r\n"))
        except UnicodeDecodeError:
            raise _unusable(name, "it is no text") from None

    def has(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> Path | None:
        """The file, below the directory, links followed; None where there is none."""
        if self._root is None:
            raise ToolError(
                "auth",
                "The provider file gives nothing: NOETL_SECRETS_DIR is not set on this worker.",
                type="ProviderOff",
            )
        try:
            root = self._root.resolve(strict=True)
            path = (root / name).resolve()
            inside = path.is_relative_to(root) and path.is_file()
        except (OSError, ValueError, RuntimeError):
            return None
        return path if inside else None


def _unusable(name: str, why: str) -> ToolError:
    return ToolError("auth", f"The file {name[:120]!r} gives no secret: {why}.", type="UnknownSecret")
