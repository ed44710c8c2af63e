"""Logs what gunicorn reports in the form in which the API logs."""

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
        try:
            wants_json = Settings.from_env().log_json
        except ConfigError:
            return  # the answers to requests say what is wrong with the settings
        for handler in self.error_log.handlers if wants_json else ():
            handler.setFormatter(JsonLines())
