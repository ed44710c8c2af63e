"""Where the text of a task comes from, python or SQL: a file beside the playbook, a result, or an
address."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noetl.errors import ToolError
from noetl.facts.reference import RESULT_REF
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy, bad_path
from noetl.tools.kit.http.answer import refusal
from noetl.tools.kit.http.messages import HttpRequest, RequestLimits
from noetl.tools.kit.references import load_reference

if TYPE_CHECKING:
    from noetl.tools.kit.http.transport import HttpClient

#: How errors call a script that is the text of a result.
RESULT: Final = "<result>"
#: Largest script.
MAX_BYTES: Final = 1024 * 1024
#: Downloaded scripts that a worker keeps.
_KEPT: Final = 64
#: Seconds that a download may take, where the task has more.
_PATIENCE_S: Final = 60.0
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class ScriptSource(BaseModel):
    """What the `uri` of a script is, and what another system needs besides, which means nothing
    here."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Literal["file", "http", "ref", "inline"] = Field(
        description="file: `file`; http: `url`, which needs `sha256`; ref: `ref`; inline: `code` here is the "
        "text."
    )
    code: str | None = Field(default=None, description="The text, where `type` is inline.")


class Script(BaseModel):
    """Where a script is: one of `file` (or `path`), `ref`, `url` (or `uri`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str | None = Field(default=None, description="A file, looked for from the playbook's directory on.")
    path: str | None = Field(default=None, description="The same as `file`.")
    ref: str | dict[str, Any] | None = Field(
        default=None,
        description="A result that is a text: its reference (`noetl://...`, or the mapping), or a template "
        "that yields it.",
    )
    url: str | None = Field(default=None, description="An http or https address; needs `sha256`.")
    uri: str | None = Field(
        default=None, description="The same as `url`; may also be a `noetl://` reference."
    )
    sha256: str | None = Field(
        default=None, description="Hash of the script's bytes, in hexadecimal: nothing else is run."
    )
    source: ScriptSource | None = Field(
        default=None, description="What `uri` is, as others write it: `{uri: x.py, source: {type: file}}`."
    )

    @model_validator(mode="after")
    def _one_of(self) -> Script:
        given = [name for name in ("file", "path", "ref", "url", "uri") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("exactly one of file, path, ref, url and uri must be given")
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256.lower()):
            raise ValueError("sha256 must be 64 hexadecimal digits")
        return self

    @property
    def place(self) -> str | dict[str, Any]:
        """Whichever was given."""
        return self.file or self.path or self.ref or self.url or self.uri or ""


@dataclass(frozen=True, slots=True)
class ScriptText:
    """The text of a script; `name` is how errors call it, `file` its path where it is a file."""

    text: str
    name: str
    file: str | None = None


class Scripts:
    """Finds scripts. What was downloaded is kept by its hash, for as long as the worker runs.
    Thread-safe."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._downloaded: OrderedDict[str, bytes] = OrderedDict()
        self._client: HttpClient | None = None

    def source(self, script: str | Script, policy: FilePolicy, deadline_s: float) -> ScriptText:
        """Raises ToolError that names the script and what is wrong with it."""
        given = (
            script
            if isinstance(script, Script)
            else Script(uri=script)
            if _scheme(script)
            else Script(file=script)
        )
        place, sha256 = given.place, (given.sha256 or "").lower()
        if given.file is not None or given.path is not None:
            return source_file(str(place), policy, sha256)
        if given.ref is not None and isinstance(place, str) and _scheme(place) != "noetl":
            # What a template yields for a result that is small enough to stand in the log.
            return _check(place.encode("utf-8", "replace"), RESULT, sha256)
        if not isinstance(place, str) or _scheme(place) == "noetl":
            reference = {"kind": RESULT_REF, "ref": place} if isinstance(place, str) else place
            name = str(reference.get("ref"))
            text = load_reference(reference, self._services.results, f"The script {name}")
            if not isinstance(text, str):
                message = f"The script {name} is a {type(text).__name__}, and no text."
                raise ToolError("client_error", message)
            return _check(text.encode("utf-8", "replace"), name, sha256)
        return _check(self._fetch(place, sha256, deadline_s), place.partition("?")[0], sha256)

    def close(self) -> None:
        """Closes connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _fetch(self, url: str, sha256: str, deadline_s: float) -> bytes:
        if _scheme(url) not in ("http", "https"):
            raise ToolError(
                "client_error",
                f"The script '{url[:200]}' has no address that is spoken here: http, https and "
                "noetl are; a file is "
                "named by its path.",
                type="InvalidUrl",
            )
        if not sha256:
            raise ToolError(
                "client_error",
                f"The script {url.partition('?')[0]} needs its hash: script: {{url: ..., sha256: ...}}.",
                type="NoHash",
            )
        with self._lock:
            found = self._downloaded.get(sha256)
        if found is None:
            found = self._download(url, deadline_s)
            if hashlib.sha256(found).hexdigest() == sha256:
                with self._lock:
                    self._downloaded[sha256] = found
                    if len(self._downloaded) > _KEPT:
                        self._downloaded.popitem(last=False)
        return found

    def _download(self, url: str, deadline_s: float) -> bytes:
        seconds = min(deadline_s, _PATIENCE_S)
        answer = self._connect().exchange(
            HttpRequest("GET", url), RequestLimits(seconds, seconds, seconds, MAX_BYTES)
        )
        if answer.status >= 400:
            raise refusal("GET", answer, {"status": answer.status})
        return answer.body

    def _connect(self) -> HttpClient:
        from noetl.tools.kit.http.transport import (
            HttpClient,  # `requests` takes 90 ms, and few scripts need it
        )

        with self._lock:
            if self._client is None:
                services = self._services
                self._client = HttpClient(
                    allow_private=services.allow_private_networks, networks=services.allowed_networks
                )
            return self._client


def _scheme(place: str) -> str:
    return urlsplit(place).scheme.lower() if "://" in place else ""


def source_file(name: str, policy: FilePolicy, sha256: str = "") -> ScriptText:
    """The script in a file. Raises ToolError that names it."""
    path = policy.existing(name, "The script")
    try:
        if not path.is_file():
            raise bad_path(f"The script '{name[:200]}' cannot be read: it is no file.", "NoFile")
        with path.open("rb") as file:
            return _check(file.read(MAX_BYTES + 1), name, sha256, str(path))
    except OSError as error:
        raise bad_path(f"The script '{name[:200]}' cannot be read: {error.strerror}.", "NoFile") from error


def digest_of_file(policy: FilePolicy, name: str) -> str | None:
    """SHA-256 of a script in a file; None where there is none that may be read."""
    try:
        path = policy.existing(name, "The script")
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except (ToolError, OSError):
        return None


def _check(content: bytes, name: str, sha256: str, file: str | None = None) -> ScriptText:
    if len(content) > MAX_BYTES:
        raise ToolError("limit", f"The script {name} is larger than {MAX_BYTES:,} bytes.", type="TooLarge")
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256:
        raise ToolError(
            "client_error", f"The script {name} has the sha256 {found}, not {sha256}.", type="BadHash"
        )
    try:
        return ScriptText(content.decode("utf-8-sig"), name, file)
    except UnicodeDecodeError as error:
        raise ToolError(
            "client_error", f"The script {name} is not UTF-8: {error}.", type="BadText"
        ) from error
