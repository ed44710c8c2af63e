"""The keys of a quantum task."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from noetl.facts.durations import seconds
from noetl.facts.json import Json
from noetl.quantum.config import shapes
from noetl.quantum.config.shapes import AnyBuilder, SchemaOf
from noetl.tools.kit.declaration import Duration, ToolConfig

Action: TypeAlias = Literal[
    "run", "expect", "estimate", "submit", "poll", "fetch", "cancel", "compile", "verify"
]
#: Where the circuit comes from: at most one of these keys.
CIRCUITS: Final = ("qasm", "cirq_json", "ref", "builder", "code")
#: Actions that are about a job or a result that is there already.
LATER: Final = frozenset({"poll", "fetch", "cancel", "verify"})
#: Actions that send circuits elsewhere.
SENDING: Final = frozenset({"run", "expect", "submit"})
#: Providers that run in the worker.
LOCAL: Final = ("simulator", "density_matrix", "clifford", "qsim", "google")
#: Vendors, and so the extras that bring what they need.
REMOTE: Final = ("ionq", "aqt")
Kept: TypeAlias = Literal["samples", "state_vector", "density_matrix"]


class Backend(ToolConfig):
    """Where circuits run."""

    provider: str = Field(default="simulator", description="A simulator of the worker, or a vendor.")
    target: str | None = Field(default=None, description="The vendor's machine.")
    auth: str | dict[str, Json] | None = Field(default=None, description="A credential.", repr=False)
    host: str | None = Field(default=None, description="The vendor's API, where it is not the usual one.")
    precision: Literal["single", "double"] = Field(
        default="single", description="Of simulators: amplitudes of 8 or of 16 bytes."
    )
    options: dict[str, Json] = Field(default_factory=dict, description="What only this backend knows.")


_Noise: TypeAlias = Annotated[dict[str, Json], SchemaOf(shapes.Noise)]


def backend_mapping(value: Json) -> Json:
    """`backend` as a mapping, where only its name was given."""
    return {"provider": value} if isinstance(value, str) else value


def _queue(value: Json) -> Json:
    with suppress(ValueError):
        if value is None or (isinstance(value, str) and seconds(value) >= 0.0):
            return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"`max_queue` is a number of jobs, or a duration such as 6h, not {value!r}")


class Limits(ToolConfig):
    """What is checked before anything is sent."""

    max_cost: float | None = Field(default=None, ge=0, description="In the currency of the backend.")
    max_queue: Annotated[
        int | str | None,
        BeforeValidator(_queue, json_schema_input_type=Annotated[int, Field(ge=0)] | str | None),
    ] = Field(
        default=None, description="What waits before ours: a number of jobs, or a duration such as `6h`."
    )
    max_shots: int | None = Field(default=None, ge=1, description="Repetitions of all points together.")
    max_qubits: int | None = Field(default=None, ge=1, description="Of one circuit.")
    max_points: int | None = Field(default=None, ge=1, description="Points of a sweep.")
    max_memory_mb: float | None = Field(default=None, gt=0, description="Of a simulated state.")


class Split(ToolConfig):
    """How repetitions are divided among jobs."""

    max_per_job: int = Field(ge=1, description="Repetitions in one job.")


class Polling(ToolConfig):
    """How often a job is looked after."""

    every: Duration = Field(default=2.0, description="The first pause.")
    backoff: float = Field(default=1.5, ge=1, description="Each pause is so many times the one before.")
    max: Duration = Field(default=300.0, description="The longest pause.")


class QuantumConfig(ToolConfig):
    """Configuration of a quantum task."""

    action: Action = Field(
        default="run",
        description="`run` samples, `expect` yields expectation values, `estimate` says what a run would "
        "cost,"
        " `compile` yields the circuit that would be sent, `verify` repeats an earlier result and compares;"
        " `submit`, `poll`, `fetch` and `cancel` are the parts of a run on a machine elsewhere.",
    )
    qasm: str | None = Field(default=None, description="The circuit in OpenQASM 2 or 3.")
    cirq_json: str | dict[str, Any] | None = Field(default=None, description="The circuit as Cirq's JSON.")
    ref: Json = Field(
        default=None,
        description="The circuit in the result of another task: OpenQASM or Cirq's JSON as text, or a "
        "mapping with"
        " `circuit`.",
    )
    builder: Annotated[dict[str, Json], SchemaOf(AnyBuilder)] | None = Field(
        default=None,
        description="A circuit by name, with what it takes: `{name: ghz, qubits: 3}`.",
    )
    code: str | None = Field(
        default=None,
        description="Python that yields a `cirq.Circuit`, as code of a python task yields its result.",
    )
    measure: bool = Field(
        default=False, description="Measure all qubits at the end of a circuit that measures nothing, as `m`."
    )
    backend: Annotated[Backend, BeforeValidator(backend_mapping, json_schema_input_type=str | Backend)] = (
        Field(
            default_factory=Backend,
            description="Where it runs: `simulator`, `density_matrix`, `clifford`, `qsim`, `ionq`, `aqt`, "
            "`google`, or a"
            " mapping.",
        )
    )
    params: Annotated[dict[str, Json], SchemaOf(shapes.Params)] | None = Field(
        default=None,
        description="Values of the circuit's symbols: one mapping, or a sweep: `product`, `zip` or `list`.",
    )
    repetitions: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="How often each point is sampled (`run`: 1000 unless told otherwise).",
    )
    split: Split | None = Field(default=None, description="How repetitions are divided among jobs.")
    seed: int | None = Field(
        default=None, ge=0, lt=1 << 63, description="Of simulators; drawn and recorded where it is missing."
    )
    observables: dict[str, Json] | list[Json] | None = Field(
        default=None,
        description='Pauli strings: `{zz: "Z0 Z1"}`, or sums of them: `{energy: {"Z0": 0.4, "X0 X1": 0.2}}`.',
    )
    estimator: Literal["exact", "sampled"] | None = Field(
        default=None,
        description="How expectation values come about; exact unless repetitions are given, or the backend "
        "samples.",
    )
    target_stderr: float | None = Field(
        default=None,
        gt=0,
        description="Sample until every standard error is at most this, or a limit is met.",
    )
    noise: _Noise | list[_Noise] | None = Field(
        default=None,
        description="Channels behind the gates, in their order, and errors of readout; a list where one "
        "comes twice.",
    )
    compile: Annotated[dict[str, Json], SchemaOf(shapes.Compile)] | None = Field(
        default=None, description="What the circuit is rewritten for, before it runs or is sent."
    )
    mitigation: Annotated[dict[str, Json], SchemaOf(shapes.Mitigation)] | None = Field(
        default=None, description="What is done about errors."
    )
    keep: list[Kept] = Field(
        default_factory=list,
        description="What is kept besides, as references to Parquet: `samples`, `state_vector`, "
        "`density_matrix`.",
    )
    limits: Limits = Field(
        default_factory=Limits, description="Bounds, checked before anything runs or is sent."
    )
    polling: Polling = Field(
        default_factory=Polling, description="Pauses between looks at a job, in seconds."
    )
    job: Json = Field(default=None, description="Of `poll`, `fetch`, `cancel`: what `submit` yielded.")
    of: Json = Field(default=None, description="Of `verify`: the result that is repeated.")
    on_difference: Literal["fail", "report"] = Field(
        default="fail",
        description="Of `verify`: whether a result that differs fails the task, or is only told.",
    )
    resume: Json = Field(
        default=None,
        description="The result of a sweep that met a limit: its points are kept, and the others run.",
    )

    @model_validator(mode="after")
    def _one_circuit(self) -> QuantumConfig:
        given = [key for key in CIRCUITS if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"only one of {', '.join(CIRCUITS)} may be given, not {' and '.join(given)}")
        if not given and self.action not in LATER:
            null = next((key for key in CIRCUITS if key in self.model_fields_set), None)
            found = f", and its `{null}` is null" if null else f": one of {', '.join(CIRCUITS)}"
            raise ValueError(f"{self.action} needs a circuit{found}")
        return self

    def circuit_form(self) -> str:
        """Which key the circuit comes from; empty where there is none."""
        return next((key for key in CIRCUITS if getattr(self, key) is not None), "")


def as_mapping(value: Json) -> Mapping[str, Json]:
    """`value` where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
