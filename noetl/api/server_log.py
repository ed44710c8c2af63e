"""What gunicorn itself says, in the form in which the API logs."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger

from noetl.config import Settings
from noetl.dispatch.json_lines import JsonLines
from noetl.errors import ConfigError


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's logger (`--logger-class`): one JSON object a line where NOETL_LOG_JSON says so."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        if _wants_json():
            for handler in self.error_log.handlers:
                handler.setFormatter(JsonLines())


def _wants_json() -> bool:
    try:
        return Settings.from_env().log_json
    except ConfigError:
        return False  # requests are told what is wrong with the settings
