"""SQL that stands elsewhere: the text of a `script` takes the place of `command`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from noetl.errors import TemplateError, ToolError
from noetl.expressions import evaluate
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Services
from noetl.tools.kit.scripts import Script, Scripts
from noetl.tools.sql.config import SqlConfig

Config = TypeVar("Config", bound=SqlConfig)


class SqlScripts:
    """Reads the scripts of one tool's calls."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._scripts = Scripts(services)
        self._load = services.results.load if services.results is not None else None

    def read(self, call: Call, config: Config, deadline_s: float) -> Config:
        """`config` with the text of its script, rendered where `spec.render` is true. Raises ToolError."""
        if not isinstance(config.script, Script):
            return config
        source = self._scripts.source(config.script, self._services.files_of(call), deadline_s)
        text = source.text
        if call.spec.get("render") is True:
            try:
                text = str(evaluate(text, _names(call), load=self._load))
            except TemplateError as error:
                raise ToolError("template", f"{source.name}: {error.message}") from error
        return config.model_copy(update={"command": text})

    def close(self) -> None:
        """Closes connections."""
        self._scripts.close()


def _names(call: Call) -> Mapping[str, Json]:
    """What templates in the text see: the whole context, and the inputs of the task."""
    return {**(call.context() if call.context is not None else {}), **call.args}
