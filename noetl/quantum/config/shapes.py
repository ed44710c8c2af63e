"""Models of the mappings within a quantum task (`params`, `noise`, `compile`, `builder`...).

The JSON schema and `noetl validate` use them. The mappings stay as written when a task runs: in
`noise` and `params` names and order have a meaning, so the modules that use them read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from noetl.facts.json import Json
from noetl.tools.kit.declaration import ToolConfig

Gateset: TypeAlias = Literal[
    "cz", "sqrt_iswap", "ionq", "ionq_aria", "ionq_forte", "aqt", "google_cz", "google_sycamore"
]
Pulses: TypeAlias = Literal["DEFAULT", "XX_PAIR", "X_XINV", "YY_PAIR", "Y_YINV"]
On: TypeAlias = Literal["one_qubit", "two_qubit", "all"]
Value: TypeAlias = float | str
Axis: TypeAlias = list[Value] | dict[str, Json]


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """Says in a JSON Schema that a mapping is like `model`, a model or a union of some. Nothing is
    checked by it."""

    model: Any

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(self.model).core_schema)


class Params(ToolConfig):
    """Symbols of one point, or one of the forms of a sweep."""

    symbol: Value | None = Field(
        default=None,
        alias="<symbol>",
        description="The value of a symbol, where there is one point only: a number, or a text such as "
        "`pi/4`, `-2*pi`.",
    )
    product: dict[str, Axis] | None = Field(
        default=None,
        description="Every combination of axes by symbol; the last symbol moves first. An axis is a list, or"
        " `{linspace: [start, stop, count]}` with both ends.",
    )
    zip: dict[str, Axis] | None = Field(
        default=None, description="Axes of equal length by symbol, side by side."
    )
    list: Any = Field(
        default=None, description="Each point by itself: a list of mappings of symbols to values."
    )


class _Channel(ToolConfig):
    on: On = Field(default="all", description="Behind gates of one qubit, of more than one, or behind all.")


class _Damping(_Channel):
    gamma: float = Field(description="The chance of the change, from 0 to 1, behind each qubit of a gate.")


class _Flip(_Channel):
    p: float = Field(description="The chance of the flip, from 0 to 1, behind each qubit of a gate.")


class Depolarize(_Channel):
    """Any Pauli string but the identity, on all qubits of a gate together."""

    p: float = Field(
        description="The chance of an error, from 0 to 1, in which each Pauli string has the same part."
    )


class Readout(ToolConfig):
    """Bits that are read wrongly."""

    p01: float = Field(default=0.0, description="How likely a 0 is read as 1.")
    p10: float = Field(default=0.0, description="How likely a 1 is read as 0.")


class Custom(_Channel):
    """A channel by its operators."""

    kraus: list[list[list[Any]]] | None = Field(
        default=None, description="Kraus operators, all 2×2 or all 4×4; complex numbers are `[re, im]`."
    )
    pauli: dict[str, float] | None = Field(
        default=None, description="Or Pauli strings of one length with their chances: `{X: 0.01, Z: 0.02}`."
    )


class Noise(ToolConfig):
    """Channels in their order, and readout errors."""

    depolarize: float | Depolarize | None = Field(
        default=None, description="Depolarizing of all qubits of a gate; a number is `p`."
    )
    amplitude_damping: float | _Damping | None = Field(
        default=None, description="Decay to 0; a number is `gamma`."
    )
    phase_damping: float | _Damping | None = Field(
        default=None, description="Loss of coherence; a number is `gamma`."
    )
    bit_flip: float | _Flip | None = Field(default=None, description="X; a number is `p`.")
    phase_flip: float | _Flip | None = Field(default=None, description="Z; a number is `p`.")
    readout: float | Readout | None = Field(
        default=None, description="Bits that are read wrongly; a number is both `p01` and `p10`."
    )
    custom: Custom | None = Field(default=None, description="Another channel: `kraus` or `pauli`.")


class Placement(ToolConfig):
    """Where the qubits of a circuit are on a device."""

    line: int | None = Field(default=None, description="So many qubits in a line.")
    grid: list[int] | None = Field(default=None, description="`[rows, columns]` of a grid.")
    qubits: dict[str, Any] | list[Any] | None = Field(
        default=None,
        description="Where each qubit starts, in their order or by name: a number on the line, `[row, "
        "column]` on the grid.",
    )


class Compile(ToolConfig):
    """What a circuit is rewritten for."""

    gateset: Gateset | None = Field(
        default=None, description="The gates that it has then; those of the machine unless told otherwise."
    )
    placement: Literal["line"] | Placement | None = Field(
        default=None,
        description="The device on which gates join neighbours only; `line` is one as long as needed.",
    )
    optimize: bool | None = Field(
        default=True, description="Whether gates are merged, and dropped where they undo each other."
    )


class KnownReadout(Readout):
    """How likely bits are read wrongly, as numbers, as matrices, or measured first."""

    matrix: list[list[float]] | dict[str, list[list[float]]] | None = Field(
        default=None,
        description="Or `[[P(0|0), P(1|0)], [P(0|1), P(1|1)]]` of every qubit, or of each by its name.",
    )
    calibrate: int | None = Field(
        default=None,
        description="Or with how many repetitions it is measured first, of all zeros and of all ones.",
    )


class Mitigation(ToolConfig):
    """What is done about errors that are known."""

    readout: KnownReadout | None = Field(
        default=None, description="Takes errors of readout out of means and, as `mitigated`, of histograms."
    )
    dynamical_decoupling: bool | Pulses | None = Field(
        default=False, description="Pulses where qubits wait; true is `DEFAULT`."
    )
    vendor: dict[str, Json] = Field(default={}, description="Handed to the vendor as it is.")


#: Operations of a circuit.
MOST_OPERATIONS: Final = 100_000

Qubits: TypeAlias = Annotated[int, Field(ge=1, le=1000)]
Layers: TypeAlias = Annotated[int, Field(ge=1, le=1000)]
Node: TypeAlias = Annotated[int, Field(ge=0, lt=1000)]
Bits: TypeAlias = Annotated[str, Field(pattern="^[01]{1,20}$")]


def _one_or_more(value: Json) -> Json:
    match value:
        case list():
            return value
        case str():
            return [value]
    raise ValueError('`marked` is a bitstring in quotes, such as "101", or a list of them')


class Built(ToolConfig):
    """What all builders take."""

    name: str
    measure: bool = Field(default=True, description="Measure all qubits at the end, as `m`.")


class Ghz(Built):
    """`{name: ghz, qubits}`"""

    name: Literal["ghz"]
    qubits: Qubits = Field(description="How many.")


class Qft(Built):
    """`{name: qft, qubits, inverse?, swaps?}`"""

    name: Literal["qft"]
    qubits: Annotated[int, Field(ge=1, le=256)] = Field(description="How many.")
    inverse: bool = Field(default=False, description="The other way round.")
    swaps: bool = Field(default=True, description="With the swaps that put the bits into order.")


class Grover(Built):
    """`{name: grover, marked, iterations?}`"""

    name: Literal["grover"]
    marked: Annotated[
        list[Bits],
        Field(min_length=1, max_length=1024),
        BeforeValidator(_one_or_more, json_schema_input_type=str | list[str]),
    ] = Field(description="The bitstrings that are searched for, such as `101`.")
    iterations: int | None = Field(
        default=None, ge=0, description="As many as find them best, unless told otherwise."
    )

    @model_validator(mode="after")
    def _alike(self) -> Grover:
        if len(set(map(len, self.marked))) > 1:
            raise ValueError("all of `marked` need as many bits as each other")
        if len(set(self.marked)) < len(self.marked):
            raise ValueError("`marked` names a bitstring twice")
        return self


class Maxcut(Built):
    """`{name: qaoa_maxcut, edges, layers}`"""

    name: Literal["qaoa_maxcut"]
    edges: list[tuple[Node, Node]] = Field(
        min_length=1, description="Pairs of nodes, which are the qubits: `[[0, 1], [1, 2]]`."
    )
    layers: Layers = Field(default=1, description="How many, with the symbols `gamma0`, `beta0`, `gamma1`...")

    @field_validator("edges")
    @classmethod
    def _simple(cls, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        if any(one == other for one, other in edges):
            raise ValueError("an edge joins two different nodes")
        if len({frozenset(edge) for edge in edges}) < len(edges):
            raise ValueError("an edge is named twice")
        return edges


class HardwareEfficient(Built):
    """`{name: hardware_efficient, qubits, layers, entangler?}`"""

    name: Literal["hardware_efficient"]
    qubits: Qubits = Field(description="How many.")
    layers: Layers = Field(description="How many, with the symbols `theta0`, `theta1`...")
    entangler: Literal["linear", "ring", "full"] = Field(
        default="linear", description="Which qubits are entangled in a layer."
    )


class Random(Built):
    """`{name: random, qubits, depth, density?, seed}`"""

    name: Literal["random"]
    qubits: Qubits = Field(description="How many.")
    depth: int = Field(ge=1, le=MOST_OPERATIONS, description="Moments.")
    density: float = Field(
        default=0.7, gt=0, le=1, description="How likely a qubit has a gate in a moment: above 0, to 1."
    )
    seed: int = Field(ge=0, lt=1 << 32, description="The same seed draws the same circuit.")


AnyBuilder: TypeAlias = Annotated[
    Ghz | Qft | Grover | Maxcut | HardwareEfficient | Random, Field(discriminator="name")
]
