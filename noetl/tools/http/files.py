"""Bodies of any size: from the connection to a file, and from there to the result store, never all in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.tools.http.request import HttpConfig
from noetl.tools.kit.base import Services
from noetl.tools.kit.large import kept_for
from noetl.tools.kit.opening import blackout

if TYPE_CHECKING:
    from noetl.tools.kit.http.transport import Answer

_UNKNOWN: Final = "application/octet-stream"


@contextmanager
def kept_aside(config: HttpConfig, services: Services) -> Iterator[Path | None]:
    """A file for the body, for as long as the block runs; None where it is read into memory. Raises
    ToolError(client_error) where there is no result store to keep it in."""
    if config.as_ != "file":
        yield None
        return
    if services.results is None:
        raise ToolError("client_error", "`as: file` needs a result store, and there is none here.")
    services.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="noetl-http-", dir=services.scratch) as folder:
        yield Path(folder, "body")


def kept(answer: Answer, call: Call, services: Services) -> Json:
    """The reference of the body, which is kept as `spec.result` says; null for an empty one."""
    assert answer.file is not None, "an answer that is no error was written to it"
    assert services.results is not None, "asked for before the call"
    if answer.file.stat().st_size == 0:
        return None
    shown = blackout().file(answer.file, answer.file.with_name("shown"))
    content_type = answer.headers.get("content-type", _UNKNOWN)
    return services.results.put_file(shown, content_type, kept_for(call))
