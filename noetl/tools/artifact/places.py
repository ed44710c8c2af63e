"""Where artifacts are kept, below roots on this machine and in stores that fsspec knows, and their
content as bytes.

A name never leads out of its root, whatever it is spelled like and whatever links lie below."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import mimetypes
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from noetl.atomic import is_draft, replace_file
from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import RESULT_REF, is_reference
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import LONGEST_NAME, bad_path, is_long
from noetl.tools.kit.http.addresses import AddressGuard, check_host

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Schemes of object stores → the package that brings the driver. Not http: that is another
#: tool, with its guard.
_STORES: Final[Mapping[str, str]] = {"memory": "fsspec", "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
_LONGEST_KEY: Final = 512
JSON: Final = "application/json"
#: Python's own, without the files of the system.
_TYPES: Final = mimetypes.MimeTypes()
_TYPES.add_type("application/vnd.apache.parquet", ".parquet")
_TYPES.add_type("application/x-ndjson", ".ndjson")
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")


def key_parts(key: str) -> tuple[str, ...]:
    """A key (`reports/2026.csv`) as names. Raises ToolError(client_error) where it is none."""
    parts = PurePosixPath(key).parts
    if not key or len(key) > _LONGEST_KEY or key.startswith("/") or "/".join(parts) != key:
        raise bad_path(
            f"The key '{key[:LONGEST_NAME]}' cannot be used; write names with / between them, like a/b.csv."
        )
    if any(part in (".", "..") or is_long(part) or not part.isprintable() or "\\" in part for part in parts):
        raise bad_path(f"The key '{key[:LONGEST_NAME]!r}' cannot be used: it leads elsewhere, or is no text.")
    return parts


@dataclass(frozen=True, slots=True)
class ArtifactObject:
    """An object, or (for lists) the beginning of their names."""

    files: AbstractFileSystem
    path: str
    uri: str
    is_local: bool

    def size(self) -> int | None:
        """Bytes; None where there is no such object. Raises ToolError."""
        with _explain_errors(self.uri):
            try:
                return int(self.files.info(self.path)["size"]) if self.files.isfile(self.path) else None
            except FileNotFoundError:
                return None

    def read(self) -> bytes:
        """All of it. Raises ToolError."""
        with _explain_errors(self.uri):
            return bytes(self.files.cat_file(self.path))

    def open(self) -> IO[bytes]:
        """Its bytes, to be closed. Raises ToolError."""
        with _explain_errors(self.uri):
            file: IO[bytes] = self.files.open(self.path, "rb")
            return file

    def read_to(self, target: Path) -> None:
        """Copies it to a local file, which is there as a whole or not at all. Raises ToolError."""
        with _explain_errors(self.uri), replace_file(target) as draft:
            self.files.get_file(self.path, str(draft))

    def write_from(self, source: Path) -> None:
        """Replaces it by a local file, as a whole. Raises ToolError."""
        with _explain_errors(self.uri):
            if self.is_local:
                with replace_file(Path(self.path)) as draft:
                    shutil.copyfile(source, draft)
                return
            self.files.makedirs(self.path.rsplit("/", 1)[0], exist_ok=True)
            self.files.put_file(str(source), self.path)

    def below(self) -> list[tuple[str, int]]:
        """Names (from here on) and sizes of the objects below, ordered. Raises ToolError."""
        with _explain_errors(self.uri):
            found = self.files.find(self.path, detail=True) if self.files.isdir(self.path) else {}
        start = len(self.path.rstrip("/")) + 1
        listed = sorted((str(path)[start:], int(info["size"])) for path, info in found.items())
        return [one for one in listed if not is_draft(one[0])]


def place_of(
    uri: str, services: Services, find: Callable[[str, str], Path], options: Mapping[str, Json]
) -> ArtifactObject:
    """What the `uri` of an artifact task means: `file:///…`, a relative name, or `s3://…`,
    `gs://…`, `memory://…` with the driver's `options`. The URI of an artifact means that one.
    `find` yields the path of a file (see `FilePolicy`).

    Raises ToolError(client_error).
    """
    store = f"{services.artifacts_url.rstrip('/')}/"
    if services.artifacts_url and uri.startswith(store):
        return artifact_place(services, *key_parts(uri.removeprefix(store)))
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        file = find(rest if separator else uri, "`uri`")
        return ArtifactObject(_open("file", {})[0], str(file), file.as_uri(), True)
    if scheme not in _STORES:
        known = ", ".join(f"{name}://" for name in ("file", *_STORES))
        raise bad_path(f"`uri` '{uri[:LONGEST_NAME]}' cannot be used; there are {known} and names of files.")
    _check_endpoint(options, services)
    if "\0" in rest or ".." in PurePosixPath(rest).parts:
        raise bad_path(f"`uri` '{uri[:LONGEST_NAME]!r}' leads elsewhere; name the object by its own path.")
    files, path = _open(uri, options)
    return ArtifactObject(files, path, uri, False)


def _check_endpoint(options: Mapping[str, Json], services: Services) -> None:
    """A store of one's own is subject to the same rule as any address that a playbook names."""
    clients = options.get("client_kwargs")
    inner = clients.get("endpoint_url") if isinstance(clients, Mapping) else None
    for url in (options.get("endpoint_url"), inner):
        host = urlsplit(str(url)).hostname if url else None
        if host:
            check_host(host, AddressGuard(services.allow_private_networks, services.allowed_networks))


def artifact_place(services: Services, *names: str) -> ArtifactObject:
    """The place of an artifact in the store of this installation. Raises ToolError."""
    if not services.artifacts_url:
        raise ToolError("internal", "This process has no place for artifacts; name one with `uri`.")
    return place_below(services.artifacts_url, *names)


def execution_artifact(url: str, execution_id: str, key: str) -> ArtifactObject:
    """The artifact of an execution in the store at `url`. Raises ToolError."""
    return place_below(url, folder_of(execution_id), *key_parts(key))


def folder_of(execution_id: str) -> str:
    """Where the artifacts of an execution lie in their store."""
    return f"executions/{execution_id}"


def place_below(url: str, *names: str) -> ArtifactObject:
    """The place of those names below `url`. Raises ToolError where a link leads out of it."""
    files, base = _open(url, {})
    path = "/".join([base.rstrip("/"), *names])
    is_local = "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)
    if is_local and not Path(path).resolve().is_relative_to(Path(base).resolve()):
        raise bad_path(
            f"The key '{'/'.join(names)[:LONGEST_NAME]}' leads out of the artifacts through a link."
        )
    return ArtifactObject(files, path, "/".join([url.rstrip("/"), *names]), is_local)


def _open(uri: str, options: Mapping[str, Json]) -> tuple[AbstractFileSystem, str]:
    # Imported here: it brings asyncio and TLS, and the compiler reads tools without calling them.
    import fsspec

    scheme = uri.partition("://")[0]
    try:
        if scheme == "file" and "://" not in uri:
            return fsspec.filesystem("file"), ""
        files, path = fsspec.core.url_to_fs(uri, **options)
    except ImportError as error:
        package = _STORES.get(scheme, "fsspec")
        raise ToolError(
            "client_error",
            f"{scheme}:// needs the package {package} on the worker; install it.",
            type="NoDriver",
        ) from error
    except (ValueError, TypeError) as error:
        raise bad_path(f"'{uri[:LONGEST_NAME]}' cannot be opened: {error}.") from error
    return files, str(path)


@contextlib.contextmanager
def _explain_errors(uri: str) -> Iterator[None]:
    """What goes wrong on the way to an object, in one sentence."""
    try:
        yield
    except ToolError:
        raise
    except FileNotFoundError as error:
        raise ToolError("client_error", f"There is no object {uri}.", type="NotFound") from error
    except PermissionError as error:
        raise ToolError("auth", f"{uri} may not be reached: {_why(error)}.", type="Forbidden") from error
    # Drivers raise what they like: all of it means that the store was not reached as it should be.
    except Exception as error:
        raise ToolError(
            "connection",
            f"{uri} cannot be reached: {_why(error)}.",
            retryable=True,
            type=type(error).__name__,
        ) from error


def _why(error: Any) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:300].rstrip(".")


def encode(data: Json, encoding: str | None) -> tuple[bytes, str]:
    """Bytes and content type. Raises ToolError where `data` is not in that encoding."""
    if encoding is not None:
        if not isinstance(data, str):
            raise ToolError("client_error", "`encoding` needs `data` to be a text.")
        try:
            return base64.b64decode(data, validate=True), "application/octet-stream"
        except ValueError as error:
            raise ToolError("client_error", f"`data` is not base64: {error}.") from error
    if isinstance(data, str):
        return data.encode("utf-8", "replace"), "text/plain"
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"), JSON


def decode(content: bytes, content_type: str, path: str | None) -> dict[str, Json]:
    """`{data, content_type}`, and `encoding` where it is not text. Raises ToolError where the bytes
    are not of that type."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        if path:
            raise ToolError("client_error", "`path` needs a value; this artifact is no text.") from None
        found = content_type or "application/octet-stream"
        return {"data": base64.b64encode(content).decode(), "content_type": found, "encoding": "base64"}
    if path or content_type.partition(";")[0] == JSON or content_type.endswith("+json"):
        try:
            return {"data": part(json.loads_exactly(text), path), "content_type": content_type or JSON}
        except (ValueError, RecursionError) as error:
            raise ToolError("client_error", f"The artifact is not JSON: {error}.", type="NotJson") from error
    return {"data": text, "content_type": content_type or "text/plain"}


def part(value: Json, path: str | None) -> Json:
    """What stands at a dotted path (`rows.0.id`); null where nothing does, the value itself without
    a path."""
    for name in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and _INDEX.fullmatch(name) and -len(value) <= int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def guess_type(name: str) -> str | None:
    """The content type that the end of a name stands for: on every machine the same."""
    found, packed = _TYPES.guess_type(name)
    return found if packed is None else "application/octet-stream"


def measure(path: Path) -> dict[str, Json]:
    """`{bytes, sha256}` of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def kept_type(data: Json) -> str | None:
    """The content type of the one object that `data` refers to; None where it refers to none."""
    if not is_reference(data) or data["kind"] != RESULT_REF:
        return None
    meta = data.get("meta")
    return str(meta.get("content_type", JSON)) if isinstance(meta, Mapping) else JSON


def reference_of(ref: str | Mapping[str, Json]) -> Mapping[str, Any]:
    """The reference to a result in `ref`, which may be its URL. Raises ToolError(client_error)."""
    found = {"kind": RESULT_REF, "ref": ref} if isinstance(ref, str) else ref
    if not is_reference(found):
        raise ToolError(
            "client_error", "`ref` is no reference to a result; a result's own, or noetl://..., is."
        )
    return found
