"""Addresses of tasks: what templates see of them, and the tokens that stand for them in URLs.

A *token* is the place of its task in URL-safe base64, and behind a dot an HMAC of that. Who has no
key of the installation cannot make one for a place, and who has one cannot make that of another.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from noetl.facts.json import JsonMap
from noetl.facts.secret import Seal, SealedNames

#: What URLs of such addresses have before their tokens.
PATH: Final = "/api/callbacks/"
#: Bytes of the HMAC: 128 bits.
_BYTES: Final = 16
#: Parts of a place.
_PARTS: Final = 4
#: What stands for no iteration.
_NONE: Final = "-"


class Callbacks(SealedNames):
    """What tasks see as `callback`: the name of one that waits for a call of its address → the
    reference to that."""

    __slots__ = ()

    def __init__(
        self, tasks: tuple[str, ...], execution_id: str, run_id: str, iteration: int | None, seal: Seal
    ) -> None:
        base = {"execution": execution_id, "run": run_id, "iteration": iteration}
        super().__init__("callback", tasks, base, seal, "In this step no address belongs to a task")


@dataclass(frozen=True, slots=True)
class TaskAddress:
    """The task that an address belongs to: of a run, or of an iteration of its loop."""

    execution_id: str
    run_id: str
    iteration: int | None
    task: str

    @property
    def key(self) -> str:
        """The key of the event that records its first call."""
        return call_key(self.run_id, self.iteration, self.task)


def call_key(run_id: str, iteration: int | None, task: str) -> str:
    """The key of the event that records the first call of an address in its execution."""
    return f"callback:{run_id}/{_NONE if iteration is None else iteration}/{task}"


def place_of(reference: JsonMap) -> TaskAddress:
    """The place that a sealed reference names."""
    iteration = reference["iteration"]
    return TaskAddress(
        str(reference["execution"]),
        str(reference["run"]),
        None if iteration is None else int(iteration),
        str(reference["callback"]),
    )


def make_token(place: TaskAddress, key: bytes) -> str:
    """The token of the address of `place`."""
    iteration = _NONE if place.iteration is None else str(place.iteration)
    parts = (place.execution_id, place.run_id, iteration, place.task)
    text = _encode("/".join(quote(part, safe="") for part in parts).encode("ascii"))
    return f"{text}.{_sign(text, key)}"


def read_token(token: str, keys: Iterable[bytes]) -> TaskAddress | None:
    """The place that `token` stands for, where one of the `keys` made it; None elsewhere. All keys
    are tried, each in the same time whatever the token is."""
    text, _, signature = token.partition(".")
    given = signature.encode("utf-8", "surrogatepass")
    signed = text if text.isascii() else ""
    is_good = [hmac.compare_digest(_sign(signed, key).encode(), given) for key in keys]
    return _read_place(signed) if any(is_good) else None


def _read_place(text: str) -> TaskAddress:
    """Of a text that we have signed."""
    padded = text + "=" * (-len(text) % 4)
    parts = base64.urlsafe_b64decode(padded).decode("ascii").split("/")
    assert len(parts) == _PARTS, "it is one that we made"
    execution_id, run_id, iteration, task = map(unquote, parts)
    return TaskAddress(execution_id, run_id, None if iteration == _NONE else int(iteration), task)


def _sign(text: str, key: bytes) -> str:
    return _encode(hmac.digest(key, text.encode("ascii"), "sha256")[:_BYTES])


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
