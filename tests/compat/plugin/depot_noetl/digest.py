"""kind: digest - the digest of a text."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from depot_noetl import journal
from noetl.errors import NoetlError, ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Effects, Services, Tool, ToolConfig


class DigestConfig(ToolConfig):
    """Configuration of a digest task."""

    text: str = Field(description="What the digest is of.")
    algorithm: Literal["sha256", "blake2b"] = Field(default="sha256", description="How it is computed.")
    expect: str | None = Field(default=None, description="Fail unless the digest is this.")
    signer: dict[str, Json] | None = Field(default=None, description="Who signs: `{credential: name}`.")
    pause: float = Field(default=0.0, ge=0, description="Seconds to wait before.")
    soft: bool = Field(default=False, description="Yield a failed outcome, instead of raising.")


class Digest(Tool):
    """Computes the digest of a text in UTF-8, and compares it where it is told what to expect."""

    kind = "digest"
    queue = "depot"
    effects: Effects = "none"
    error_kind = "client_error"
    description = "Computes the digest of a text."
    result = "`{algorithm, hex, call}`."
    errors = "Another digest than the expected one is an error of kind `client_error`, type `Mismatch`."
    example = """
        - step: digest
          tool: {kind: digest, text: "{{ workload.text }}"}
          set: {ctx.digest: "{{ result.hex }}"}
    """
    config_model = DigestConfig
    required = (("text",),)
    defaults = {"timeout": 30, "seal": "wax"}  # noqa: RUF012
    sections = ("digest",)
    credentials = ("signer.credential",)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._stops: dict[int, threading.Event] = {}
        self._lock = threading.Lock()

    def run(self, call: Call, config: DigestConfig) -> Outcome:
        self._wait(call, config.pause)
        key = b""
        if config.signer is not None:
            fields = self.services.credential(str(config.signer["credential"]))
            key = str(fields["key"]).encode()
        hashed = hashlib.new(config.algorithm, key + config.text.encode()).hexdigest()
        if config.soft:
            info = ErrorInfo("server_error", "The wax is cold.", type="Cold", retryable=True)
            return failed(info, {"stdout": "cold\n"}, digest={"hex": hashed})
        if config.expect not in (None, hashed):
            raise ToolError(
                "client_error",
                f"The digest is {hashed}, not what `expect` says.",
                type="Mismatch",
                retryable=False,
                result={"hex": hashed},
                extras={"digest": {"hex": hashed}, "status": 409},
            )
        return succeeded(
            {"algorithm": config.algorithm, "hex": hashed, "call": self._seen(call)},
            {"stdout": "sealed\n"},
            digest={"bytes": len(config.text)},
        )

    def _seen(self, call: Call) -> dict[str, Json]:
        where = call.where
        return {
            "kind": call.kind,
            "args": dict(call.args),
            "seal": call.spec.get("seal"),
            "task": call.task,
            "attempt": call.attempt,
            "has_key": bool(call.idempotency_key),
            "deadline": self.deadline(call),
            "step": where.step,
            "iteration": where.iteration,
            "has_event": where.execution_id != "" and where.event != "",
            "limit": self.services.result_limit > self.services.output_limit > 0,
            "scratch": self.services.scratch.name != "",
            "store": self.services.results is not None,
            "private": self.services.allow_private_networks,
        }

    def _wait(self, call: Call, seconds: float) -> None:
        stop = threading.Event()
        with self._lock:
            self._stops[id(call)] = stop
        try:
            if seconds:
                journal.write("digest waits")
            if stop.wait(seconds):
                raise ToolError("cancelled", "The digest was stopped.")
        finally:
            with self._lock:
                del self._stops[id(call)]

    def interrupt(self, call: Call) -> None:
        with self._lock:
            stop = self._stops.get(id(call))
        if stop is not None:
            journal.write("digest interrupted")
            stop.set()

    def close(self) -> None:
        journal.write("digest closed")

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        return (f"a seal by {config.get('algorithm', 'sha256')}",)


def is_ours(error: Exception) -> bool:
    """Whether NoETL raised it on purpose."""
    return isinstance(error, NoetlError)
