"""A circuit at a point: its symbols have their values, and every angle is a finite real number."""

from __future__ import annotations

import math
from typing import Any

import cirq
import numpy as np
import sympy

from noetl.errors import ToolError
from noetl.quantum.circuits.figures import shown
from noetl.quantum.model import Point


def resolved(circuit: cirq.Circuit, point: Point) -> cirq.Circuit:
    """`circuit` with the values of `point` in it. Raises ToolError (`NotFinite`) where what an expression comes to there
    is no angle: `1/t` at 0, `sqrt(t)` at -1."""
    if not point.params:
        return circuit
    try:
        # Numpy would warn of what is refused here.
        with np.errstate(all="ignore"):
            return cirq.resolve_parameters(circuit, _Values(dict(point.params)))
    except _NoAngle as error:
        raise ToolError(
            "client_error",
            f"At point {point.index} of `params` the circuit's {shown(str(error))} is no finite real number; leave the point"
            " out, or give it other values.",
            type="NotFinite",
        ) from None


class _NoAngle(Exception):
    """The expression of which it is said."""


class _Values(cirq.ParamResolver):
    def value_of(self, value: Any, recursive: bool = True) -> Any:
        try:
            found = super().value_of(value, recursive)
        except ArithmeticError:
            raise _NoAngle(value) from None
        if isinstance(found, sympy.Basic) or _is_angle(found):
            return found
        raise _NoAngle(value)


def _is_angle(found: Any) -> bool:
    number = complex(found)
    return math.isfinite(number.real) and not number.imag
