"""The provider `env`: environment variables of the worker whose names begin with a prefix that the
settings allow."""

from __future__ import annotations

from noetl.errors import ToolError
from noetl.facts.nearest import did_you_mean
from noetl.tools.secrets.sources import SourceSettings
from noetl.usecases.secrets import Secret


class Environment:
    """Secrets by the name of their variable, with or without the prefix."""

    keep_s = 0.0

    def __init__(self, settings: SourceSettings) -> None:
        self._prefix = settings.prefix
        self._variables = settings.variables

    def read(self, name: str, version: str | None) -> Secret:
        """See `noetl.usecases.secrets.Provider`. Raises ToolError where the variable may not be
        read, or is not set."""
        self._check_on()
        if version is not None:
            raise ToolError("client_error", "The provider env keeps no versions; leave `version` out.")
        value = self._variables.get(name.removeprefix(self._prefix))
        if not value:
            near = did_you_mean(name.removeprefix(self._prefix), self._variables)
            missing = self._prefix + name.removeprefix(self._prefix)
            raise ToolError(
                "auth",
                f"The variable {missing[:120]!r} is not set on this worker.{near}",
                type="UnknownSecret",
            )
        return Secret(value)

    def has(self, name: str) -> bool:
        self._check_on()
        return bool(self._variables.get(name.removeprefix(self._prefix)))

    def _check_on(self) -> None:
        if not self._prefix:
            raise ToolError(
                "auth",
                "The provider env gives nothing: NOETL_SECRETS_ENV_PREFIX is not set on this worker.",
                type="ProviderOff",
            )
