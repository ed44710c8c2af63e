"""kind: artifact - files that outlive their step: kept under keys, read back, listed, looked up."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, model_validator

from noetl.errors import BadRequest, NotFound, ToolError, Unavailable
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.reference import Lazy, holds_reference, is_reference, open_references
from noetl.net.model import Effects, Spelling
from noetl.pipeline.model import Call
from noetl.tools.artifact.places import (
    JSON,
    ArtifactObject,
    artifact_place,
    decode,
    encode,
    folder_of,
    guess_type,
    kept_type,
    key_parts,
    measure,
    part,
    place_of,
    reference_of,
)
from noetl.tools.kit import effects
from noetl.tools.kit.base import Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.usecases.ports import Results

#: Artifacts that one `list` names.
MOST: Final = 1_000


class ArtifactConfig(ToolConfig):
    """Configuration of an artifact task."""

    action: Literal["put", "get", "list", "resolve"] = Field(description="What to do.")
    key: str | None = Field(default=None, description="The artifact's name, like `reports/2026.csv`.")
    scope: Literal["execution", "shared"] = Field(
        default="execution",
        description="Whose keys: those of this execution, or those that all executions share.",
    )
    uri: str | None = Field(
        default=None,
        description="Instead of a key: a file, from the playbook's directory on, or an object, "
        "`s3://bucket/name`.",
    )
    ref: str | dict[str, Json] | None = Field(
        default=None,
        description="Instead of a key: a result that was kept outside of the log, `noetl://...`.",
    )
    data: Json = Field(
        default=None,
        description="For `put`: a text as it is, anything else as JSON; a file or table that a step yielded "
        "is copied.",
    )
    encoding: Literal["base64"] | None = Field(
        default=None, description="For `put`: `data` is base64 of the bytes."
    )
    file: str | None = Field(default=None, description="For `put`: a file, from the playbook's directory on.")
    to: str | None = Field(
        default=None,
        description="For `get`: the file that it is written to, from the playbook's directory on.",
    )
    content_type: str | None = Field(
        default=None, description="How it is to be read; by default what the end of its name says."
    )
    path: str | None = Field(
        default=None,
        description="For `get` and `resolve`: the part of the value that is wanted, `rows.0.id`.",
    )
    prefix: str = Field(default="", description="For `list`: only keys that begin like this.")
    auth: str | dict[str, Json] | None = Field(
        default=None,
        description="For `s3://` and `gs://`: name of a `generic` credential with the options of the driver, "
        "or those.",
    )

    @model_validator(mode="after")
    def _fits(self) -> ArtifactConfig:
        named = [name for name in ("key", "uri", "ref") if getattr(self, name) is not None]
        given = [name for name in ("data", "file") if name in self.model_fields_set]
        if self.action != "list" and len(named) != 1:
            raise ValueError(f"`{self.action}` needs one of `key`, `uri` and `ref`")
        if self.action == "put" and (self.ref is not None or len(given) != 1):
            raise ValueError("`put` needs a `key` or `uri`, and one of `data` and `file`")
        if self.action != "put" and given:
            raise ValueError(f"`{given[0]}` is for `put`")
        if self.encoding and not (isinstance(self.data, str) or is_reference(self.data)):
            raise ValueError("`encoding` needs `data` to be a text")
        return self


#: What may stand among the inputs of a task as well.
_OF_INPUTS: Final = {
    "key": Spelling("key", unless=("uri", "ref")),
    "uri": Spelling("uri", unless=("key", "ref")),
    "ref": Spelling("ref", unless=("key", "uri")),
    "result_ref": Spelling("ref", unless=("key", "uri")),
    "path": Spelling("path"),
}


class Artifact(Tool):
    """Keeps files under keys, in a folder beside the results (`NOETL_RESULTS_URL`), and reads them
    back.

    A key belongs to its execution unless `scope: shared`; what is put again replaces what was
    there, at once and as a whole. Nothing removes artifacts but you. `uri` reads and writes other
    files (`report.csv`, `file:///...`) by [the rule for files](../operations.md#files), and objects
    of `s3://` and `gs://` where the worker has the driver. `ref` reads a result that was too large
    for the log.

    `put` writes, `get` yields the content, `list` the keys, `resolve` tells about an artifact
    without reading it."""

    declaration = ToolDeclaration(
        kind="artifact",
        # It waits for disks and networks, like the calls of http.
        queue="http",
        sections=(),
        effects="external",
        error_kind="client_error",
        description="Keeps files under keys, reads them back, lists them; also files and objects by URI.",
        result="""
            `put`: `{key, uri, bytes, sha256, content_type}`. `get`: the same with `data`, the content: a
            value where it is JSON, else a text, else base64 with `encoding: base64`; with `to` it is `{uri,
            file, bytes, sha256}`. `list`: `{artifacts: [{key, uri, bytes}], count}`, at most 1,000 with
            `truncated: true`. `resolve`: `{exists, key, uri, bytes, content_type}`, for a `ref` also its
            `preview`; with `path` that part of the value as `data`. For templates the fields of what `get`
            reads stand behind those of its answer: `load.total` finds `load.data.total`.
        """,
        errors="""
            An artifact that is not there is a `client_error` of type `NotFound` that names the nearest key; a
            name that leads out of its root one of type `BadPath`. A store that does not answer is a
            `connection` error and retryable. More than a result may hold is a `limit` error: use `to`.
        """,
        example="""
            - step: keep
              tool:
                kind: artifact
                action: put
                key: totals.json
                data: {city: Oslo, amount: 12}
              next: read
            - step: read
              tool: {kind: artifact, action: get, key: totals.json, path: amount}
              next: end
            - step: end
              tool: {kind: noop, input: {amount: "{{ read.data }}"}}
        """,
        config_model=ArtifactConfig,
        spellings={
            "result_ref": Spelling("ref", unless=("key", "uri")),
            **{f"{inputs}/{key}": one for inputs in ("input", "args") for key, one in _OF_INPUTS.items()},
        },
        required=(("action",),),
        by_reference=("data", "ref"),
    )

    @classmethod
    def effects_of(cls, config: Mapping[str, Json]) -> Effects | None:
        reads = config.get("action") in ("get", "list", "resolve") and config.get("to") is None
        return "none" if reads else None

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        action = effects.one_line(config.get("action"))
        key = effects.first(config, "key", "uri", "ref", "prefix")
        name = "a result" if isinstance(key, Mapping) else effects.address(key) if key is not None else ""
        to = [f"writes file {effects.one_line(config['to'])}"] if config.get("to") is not None else []
        return (f"{action} artifact {name}".rstrip(), *to)

    def run(self, call: Call, config: ArtifactConfig) -> Outcome:
        actions = {"put": self._put, "get": self._get, "list": self._list, "resolve": self._resolve}
        try:
            return succeeded(actions[config.action](call, config))
        except (NotFound, BadRequest) as error:
            raise ToolError("client_error", error.message, type=type(error).__name__) from error
        except Unavailable as error:
            raise ToolError("connection", error.message, retryable=True, type="Unavailable") from error

    def _put(self, call: Call, config: ArtifactConfig) -> Json:
        place = self._place(call, config)
        wanted = config.content_type or guess_type(place.uri)
        with self._content(call, config, wanted) as (source, found):
            about = {**measure(source), "content_type": wanted or found}
            place.write_from(source)
        return {**_describe(config, place), **about}

    @contextlib.contextmanager
    def _content(self, call: Call, config: ArtifactConfig, wanted: str | None) -> Iterator[tuple[Path, str]]:
        """A file with what is to be put, and its content type; `wanted` is the one that it will be
        read as."""
        if config.file is not None:
            path = self.services.files_of(call).path(config.file, "`file`")
            if not path.is_file():
                raise ToolError("client_error", f"There is no file '{config.file[:200]}'.", type="NotFound")
            yield path, guess_type(config.file) or "application/octet-stream"
        elif config.encoding is None and self._is_copied(config.data, wanted):
            with self._results().file(config.data) as path:
                yield path, kept_type(config.data) or JSON
        else:
            content, content_type = encode(self._open_reference(config.data), config.encoding)
            with tempfile.NamedTemporaryFile(prefix="noetl-artifact-") as file:
                file.write(content)
                file.flush()
                yield Path(file.name), content_type

    def _is_copied(self, data: Json, wanted: str | None) -> bool:
        """Whether the object that `data` refers to holds what the same value would be written as,
        had it been small. A text is kept as JSON, a value in several objects, rows as a table."""
        match kept_type(data):
            case None:
                return False
            case "application/json":
                value = self._results().load(data)
                return not isinstance(value, str | Lazy) and not holds_reference(value)
            case "application/vnd.apache.parquet":
                return wanted != JSON
            case _:
                return True

    def _get(self, call: Call, config: ArtifactConfig) -> Json:
        if config.ref is not None:
            reference = reference_of(config.ref)
            return {"ref": reference["ref"], "data": part(self._open_reference(reference), config.path)}
        place = self._place(call, config)
        size = self._size(call, config, place)
        if config.to is not None:
            target = self.services.files_of(call).target(config.to, "`to`")
            place.read_to(target)
            return {**_describe(config, place), "file": config.to, **measure(target)}
        if size > self.services.result_limit:
            raise ToolError(
                "limit",
                f"{place.uri} has {size:,} bytes, more than a result may hold; write it to a file with `to`.",
            )
        content = place.read()
        content_type = config.content_type or guess_type(place.uri) or ""
        about = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        return {**_describe(config, place), **about, **decode(content, content_type, config.path)}

    def _list(self, call: Call, config: ArtifactConfig) -> Json:
        place = self._place(call, config)
        found = [one for one in place.below() if one[0].startswith(config.prefix)]
        listed = [{"key": name, "uri": f"{place.uri}/{name}", "bytes": size} for name, size in found[:MOST]]
        more = {"truncated": True} if len(found) > MOST else {}
        return {"artifacts": listed, "count": len(listed), **more}

    def _resolve(self, call: Call, config: ArtifactConfig) -> Json:
        if config.ref is not None:
            reference = reference_of(config.ref)
            names = ("ref", "meta", "preview", "extracted")
            shown = {name: reference[name] for name in names if name in reference}
            if config.path:
                shown["data"] = part(self._open_reference(reference), config.path)
            return {"exists": True, **shown}
        place = self._place(call, config)
        size = place.size()
        about = {"exists": size is not None, **_describe(config, place), "bytes": size}
        content_type = config.content_type or guess_type(place.uri)
        more = {"data": self._get(call, config)["data"]} if config.path and size is not None else {}
        return {**about, "content_type": content_type, **more}

    def _place(self, call: Call, config: ArtifactConfig) -> ArtifactObject:
        if config.uri is not None:
            policy = self.services.files_of(call)
            find = policy.target if config.action == "put" else policy.path
            return place_of(config.uri, self.services, find, self._options(config.auth))
        scope = "shared" if config.scope == "shared" else folder_of(call.where.execution_id)
        return artifact_place(self.services, scope, *(key_parts(config.key) if config.key else ()))

    def _options(self, auth: str | Mapping[str, Json] | None) -> Mapping[str, Json]:
        match auth:
            case None:
                return {}
            case str(name):
                return self.services.credential(name)
            case fields:
                stored = self.services.credential(str(fields["credential"])) if "credential" in fields else {}
                return {**stored, **{name: value for name, value in fields.items() if name != "credential"}}

    def _size(self, call: Call, config: ArtifactConfig, place: ArtifactObject) -> int:
        size = place.size()
        if size is not None:
            return size
        if config.key is None:
            raise ToolError("client_error", f"There is no object {place.uri}.", type="NotFound")
        everything = self._place(call, config.model_copy(update={"key": None}))
        hint = did_you_mean(config.key, [name for name, _ in everything.below()])
        whose = "that all executions share" if config.scope == "shared" else "of this execution"
        raise ToolError(
            "client_error", f"There is no artifact '{config.key[:200]}' {whose}.{hint}", type="NotFound"
        )

    def _results(self) -> Results:
        if self.services.results is None:
            raise ToolError("internal", "This process has no store of results to read from.")
        return self.services.results

    def _open_reference(self, value: Json) -> Json:
        return open_references(value, lambda reference: self._results().load(reference))


def _describe(config: ArtifactConfig, place: ArtifactObject) -> dict[str, Json]:
    return {"uri": place.uri} if config.key is None else {"key": config.key, "uri": place.uri}
