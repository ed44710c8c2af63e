"""What can be told of a task as it is written: names that nothing knows, and what an action needs, without Cirq.

`noetl validate` asks, so that nobody waits for Cirq, or a queue, to hear of a mistyped name. Who reads these values when the
task runs knows the same names and says more; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.tools.quantum.config import REMOTE, Action, named

Provider: TypeAlias = Literal["simulator", "density_matrix", "clifford", "qsim", "ionq", "aqt", "google"]
BuilderName: TypeAlias = Literal["ghz", "qft", "grover", "qaoa_maxcut", "hardware_efficient", "random"]
Gateset: TypeAlias = Literal[
    "cz", "sqrt_iswap", "ionq", "ionq_aria", "ionq_forte", "aqt", "google_cz", "google_sycamore"
]
Decoupling: TypeAlias = Literal["DEFAULT", "XX_PAIR", "X_XINV", "YY_PAIR", "Y_YINV"]
#: Forms of a sweep.
FORMS: Final = ("product", "zip", "list")
#: What an action needs besides its circuit: the key, and how it is written.
_NEEDS: Final[Mapping[str, tuple[str, str]]] = {
    "expect": ("observables", 'such as `observables: {zz: "Z0 Z1"}`'),
    "poll": ("job", 'what a task with `action: submit` yielded, as in `job: "{{ step }}"`'),
    "fetch": ("job", 'what a task with `action: submit` yielded, as in `job: "{{ step }}"`'),
    "cancel": ("job", 'what a task with `action: submit` yielded, as in `job: "{{ step }}"`'),
    "verify": ("of", 'the whole result that is to be repeated, as in `of: "{{ step }}"`'),
}


class _Names(BaseModel):
    """A mapping whose keys are all known; what they hold is read when the task runs."""

    model_config = ConfigDict(extra="forbid")


class BackendNames(BaseModel):
    """Of `backend`; its keys are checked with the task's other ones."""

    auth: Any = None
    provider: Provider = "simulator"

    @field_validator("provider")
    @classmethod
    def _has_its_key(cls, provider: Provider, info: ValidationInfo) -> Provider:
        if provider in REMOTE and info.data.get("auth") is None:
            raise ValueError(
                f"the backend {provider} needs `auth`, a credential: `noetl credential set {provider} --type bearer --data"
                f""" '{{"token": "..."}}'`, and `backend: {{provider: {provider}, auth: {provider}}}`"""
            )
        return provider


class BuilderNames(BaseModel):
    """Of `builder`; what else it takes depends on its name."""

    name: BuilderName


class NoiseNames(_Names):
    """Of `noise`."""

    depolarize: Json = None
    amplitude_damping: Json = None
    phase_damping: Json = None
    bit_flip: Json = None
    phase_flip: Json = None
    readout: Json = None
    custom: Json = None


class CompileNames(_Names):
    """Of `compile`."""

    gateset: Gateset | None = None
    placement: Json = None
    optimize: bool = True


class MitigationNames(_Names):
    """Of `mitigation`."""

    readout: Json = None
    dynamical_decoupling: Decoupling | bool = False
    vendor: dict[str, Any] | None = None


class Written(BaseModel):
    """The keys of a task of which something can be told. `action` comes last: it needs some of the others."""

    backend: Annotated[BackendNames, BeforeValidator(named)] | None = None
    builder: BuilderNames | None = None
    params: dict[str, Any] | None = None
    noise: NoiseNames | list[NoiseNames] | None = None
    compile: CompileNames | None = None
    mitigation: MitigationNames | None = None
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
