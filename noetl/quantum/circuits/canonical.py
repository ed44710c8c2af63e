"""One text for a circuit: Cirq's JSON with sorted keys, without spaces, and with the operations of
a moment in the order of their qubits. What is hashed, kept and compared is this text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from json import JSONDecodeError
from typing import Any, Final

import cirq
import sympy

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.quantum.model import Point

#: Characters of a circuit's JSON.
MOST_TEXT: Final = 16 * 1024 * 1024
#: Types of Cirq's JSON that are no part of a circuit.
_FOREIGN: Final = ("pandas.", "datetime.")
_NUMBERS: Final = (int, float, complex, sympy.Basic)


def text(circuit: cirq.AbstractCircuit) -> str:
    """The same circuit has the same text in every process, and `read` makes an equal circuit of it.

    Raises ToolError where the circuit holds what JSON cannot: NaN, infinities, gates that Cirq does
    not know."""
    try:
        raw = cirq.to_json(sort_moments(circuit), indent=None)
    except (TypeError, ValueError, AttributeError) as error:
        message = (
            f"The circuit has no JSON: {_brief(error)}; only gates and expressions that Cirq writes "
            "can be kept."
        )
        raise ToolError("client_error", message, type="NoCircuitJson") from None
    return as_text(json.loads(raw))


def dumps(value: Json) -> str:
    """JSON with sorted keys and without spaces. Raises ValueError for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def as_text(value: Json) -> str:
    """The text of a circuit's JSON that came as a value. Raises ToolError for NaN and
    infinities."""
    try:
        return dumps(value)
    except ValueError:
        raise _not_finite() from None


def _not_finite() -> ToolError:
    message = "The circuit holds NaN or an infinity; every angle and probability must be a finite number."
    return ToolError("client_error", message, type="NotFinite")


def sort_moments(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """The operations of each moment in the order of their qubits. Moments are equal whatever that
    order is, but compilers, generators and noise follow it: transformers leave it as sets have it,
    which differs from process to process."""
    return cirq.Circuit(
        cirq.Moment(*sorted(moment.operations, key=lambda operation: operation.qubits)) for moment in circuit
    )


def sha256(text: str) -> str:
    """The SHA-256 of a text in UTF-8, as hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sweep_sha256(points: Sequence[Point]) -> str:
    """The SHA-256 of the values of all points, in their order."""
    return sha256(dumps([dict(point.params) for point in points]))


def read(given: str, place: str = "cirq_json") -> cirq.Circuit:
    """The circuit of Cirq's JSON. Use this and never `cirq.read_json`: some of its types evaluate
    texts as python.

    Raises ToolError, whose message begins with `place`, where the text is no circuit of Cirq.
    """
    if len(given) > MOST_TEXT:
        raise _refusal(place, f"has more than {MOST_TEXT:,} characters")
    try:
        json.loads(given, parse_constant=_no_constant, parse_float=_finite)
        value = cirq.read_json(json_text=given, resolvers=[_resolver(place)])
    except JSONDecodeError as error:
        raise _refusal(
            place, f"is no JSON at line {error.lineno}, column {error.colno}: {error.msg}", line=error.lineno
        ) from None
    except OverflowError:
        raise _not_finite() from None
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
        raise _refusal(place, f"is no circuit of Cirq: {_brief(error)}") from None
    if not isinstance(value, cirq.AbstractCircuit):
        raise _refusal(
            place, f"is no circuit but of type {type(value).__name__}; cirq.to_json(circuit) writes one"
        )
    return value.unfreeze(copy=False)


def _refusal(place: str, what: str, line: int | None = None) -> ToolError:
    return ToolError("client_error", f"{place} {what}.", type="CirqJsonError", line=line)


def _brief(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    words = str(error).splitlines()
    return words[0][:300].rstrip(".") if words else type(error).__name__


def _no_constant(name: str) -> float:
    raise OverflowError(name)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise OverflowError(digits)
    return value


def _resolver(place: str) -> Any:
    def resolve(cirq_type: str) -> Any:
        for known in cirq.DEFAULT_RESOLVERS:
            factory: Any = known(cirq_type)
            if factory is None or cirq_type.startswith(_FOREIGN):
                continue
            if cirq_type.startswith("sympy.") and cirq_type != "sympy.Symbol":
                return _of_numbers(cirq_type, factory, place)
            return factory
        raise _refusal(
            place, f"has `cirq_type` {cirq_type!r}, which no circuit of Cirq {cirq.__version__} has"
        )

    return resolve


def _of_numbers(cirq_type: str, factory: Callable[..., Any], place: str) -> Callable[..., Any]:
    """sympy evaluates texts, and the texts of objects that it does not know: `sympy.Not` of a text
    is `eval`."""

    def make(**given: Any) -> Any:
        for value in given.values():
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, _NUMBERS) for part in parts):
                raise _refusal(place, f"has a {cirq_type} of something that is neither number nor symbol")
        return factory(**given)

    return make
