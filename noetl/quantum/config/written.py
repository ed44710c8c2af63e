"""What can be checked of a task as it is written, without Cirq: what its mappings cannot take, and
what an action needs.

`noetl validate` uses it, so that a mistyped name is reported without Cirq, and before anything is
queued. The modules that read these values when the task runs check more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ValidationInfo, field_validator, model_validator

from noetl.facts.nearest import did_you_mean
from noetl.quantum.config import shapes
from noetl.quantum.config.shapes import AnyBuilder
from noetl.quantum.config.task import REMOTE, Action, backend_mapping

Provider: TypeAlias = Literal["simulator", "density_matrix", "clifford", "qsim", "ionq", "aqt", "google"]
#: Forms of a sweep.
FORMS: Final = tuple(name for name in shapes.Params.model_fields if name != "symbol")
#: What an action needs besides its circuit: the key, and how it is written.
_NEEDS: Final[Mapping[str, tuple[str, str]]] = {
    "expect": ("observables", 'such as `observables: {zz: "Z0 Z1"}`'),
    "poll": ("job", 'what a task with `action: submit` yielded, as in `job: "{{ step }}"`'),
    "fetch": ("job", 'what a task with `action: submit` yielded, as in `job: "{{ step }}"`'),
    "cancel": ("job", 'what a task with `action: submit` yielded, as in `job: "{{ step }}"`'),
    "verify": ("of", 'the whole result that is to be repeated, as in `of: "{{ step }}"`'),
}


class BackendNames(BaseModel):
    """Of `backend`; its keys are checked with the task's other ones."""

    target: Any = None
    auth: Any = None
    host: Any = None
    provider: Provider = "simulator"

    @model_validator(mode="after")
    def _says_whose(self) -> BackendNames:
        given = [key for key in ("target", "auth", "host") if getattr(self, key) is not None]
        if given and "provider" not in self.model_fields_set:
            raise ValueError(
                f"`backend` has `{given[0]}` and no `provider`, and without one it is the "
                "simulator, which has none;"
                f" write `provider: {REMOTE[0]}` or another"
            )
        return self

    @field_validator("provider")
    @classmethod
    def _has_its_key(cls, provider: Provider, info: ValidationInfo) -> Provider:
        if provider in REMOTE and info.data.get("auth") is None:
            raise ValueError(
                f"the backend {provider} needs `auth`, a credential: `noetl credential set "
                f"{provider} --type bearer --data"
                f""" '{{"token": "..."}}'`, and `backend: {{provider: {provider}, auth: {provider}}}`"""
            )
        return provider


class WrittenQuantum(BaseModel):
    """The keys of a task that can be checked. `action` comes last: it needs some of the
    others."""

    backend: Annotated[BackendNames, BeforeValidator(backend_mapping)] | None = None
    builder: AnyBuilder | None = None
    params: dict[str, Any] | None = None
    noise: shapes.Noise | list[shapes.Noise] | None = None
    compile: shapes.Compile | None = None
    mitigation: shapes.Mitigation | None = None
    observables: Any = None
    job: Any = None
    of: Any = None
    action: Action = "run"

    @field_validator("params")
    @classmethod
    def _is_a_form(cls, params: dict[str, Any] | None) -> dict[str, Any] | None:
        for name, value in (params or {}).items():
            if isinstance(value, dict | list) and name not in FORMS:
                hint = did_you_mean(name, FORMS) or f" A sweep is one of {', '.join(FORMS)}."
                raise ValueError(f"`params.{name}` is no number, and no form of a sweep.{hint}")
        return params

    @field_validator("action")
    @classmethod
    def _has_what_it_needs(cls, action: Action, info: ValidationInfo) -> Action:
        key, how = _NEEDS.get(action, ("", ""))
        # What is at fault itself is not in `data`, and told already.
        if key in info.data and info.data[key] in (None, {}, []):
            raise ValueError(f"`{action}` needs `{key}`, {how}")
        return action
