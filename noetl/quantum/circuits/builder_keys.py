"""The keys of `builder`: what each circuit by name takes. Without Cirq, for `noetl validate` and the manual."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from noetl.facts.json import Json
from noetl.tools.kit.base import ToolConfig

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
