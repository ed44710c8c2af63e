"""The keys of mappings in a quantum task that are read by the parts which they are for: what they take, and what is told
of them. Names and order of a `noise` or of `params` mean something there, so the mappings themselves stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue

from noetl.facts.json import Json
from noetl.tools.kit.base import ToolConfig

Gateset: TypeAlias = Literal[
    "cz", "sqrt_iswap", "ionq", "ionq_aria", "ionq_forte", "aqt", "google_cz", "google_sycamore"
]
Pulses: TypeAlias = Literal["DEFAULT", "XX_PAIR", "X_XINV", "YY_PAIR", "Y_YINV"]
On: TypeAlias = Literal["one_qubit", "two_qubit", "all"]
Value: TypeAlias = float | str
Axis: TypeAlias = list[Value] | dict[str, Json]


@dataclass(frozen=True, slots=True)
class Shape:
    """Says in a JSON Schema that a mapping is like `model`, a model or a union of some. Nothing is checked by it."""

    model: Any

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(self.model).core_schema)


class Params(ToolConfig):
    """Symbols of one point, or one of the forms of a sweep."""

    symbol: Value | None = Field(
        default=None,
        alias="<symbol>",
        description="The value of a symbol, where there is one point only: a number, or a text such as `pi/4`, `-2*pi`.",
    )
    product: dict[str, Axis] | None = Field(
        default=None,
        description="Every combination of axes by symbol, the last of which moves first. An axis is a list, or"
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
        description="Where each qubit starts, in their order or by name: a number on the line, `[row, column]` on the grid.",
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
