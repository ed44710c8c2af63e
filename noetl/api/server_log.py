"""Logs what gunicorn reports in the form in which the API logs."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn.glogging import Logger

from noetl.api.problems import mask
from noetl.config import Settings
from noetl.dispatch.json_lines import JsonLines
from noetl.errors import ConfigError


def _mask_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = mask(record.getMessage()), ()
    return True


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's logger (`--logger-class`): one JSON object a line where NOETL_LOG_JSON says so."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        # Of a request that fails in the server itself it writes the address.
        self.error_log.addFilter(_mask_record)
        try:
            wants_json = Settings.from_env().log_json
        except ConfigError:
            return  # the answers to requests say what is wrong with the settings
        for handler in self.error_log.handlers if wants_json else ():
            handler.setFormatter(JsonLines())

    def atoms(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What a line of gunicorn's own access log is made of, without tokens."""
        found = super().atoms(*args, **kwargs)
        return {name: mask(one) if isinstance(one, str) else one for name, one in found.items()}
