"""Cirq's parser of OpenQASM, with what is wrong or unbounded in it put right.

Corrected here: `cu3`, `cu` and `u` with angles below 0 (Cirq's controlled ones are off by a phase), `if` before a gate on
a register (Cirq's applies it to the first qubit), `if` on values that a register never has, a sign behind an operator
(Cirq's `6/-2*3` is -1), arithmetic (unbounded, and NaN), gates in gates (unbounded, and names of parameters that cross).
Gates that a text defines are put in the place of their calls.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import cirq
import sympy

# Its functions name the grammar that ply reads. There is no public name for the class.
from cirq.contrib.qasm_import._parser import QasmParser
from cirq.contrib.qasm_import.exception import QasmException

from noetl.facts.nearest import nearest
from noetl.quantum.circuits.qasm_angles import FUNCTIONS, OPERATORS, Angle, function_in, size
from noetl.quantum.circuits.qasm_gates import BASIC, LIBRARY, MOST_IN_GATE, MOST_PARTS, MOST_WORK, Gate

#: Operations of a circuit.
MOST_OPERATIONS: Final = 100_000

_making = threading.Lock()


class Unexpected(QasmException):
    """A token, at `offset`, that the grammar has no use for."""

    def __init__(self, offset: int) -> None:
        super().__init__("")
        self.offset = offset


def _in_place_of(rule: Callable[..., None], grammar: str | None = None) -> Callable[..., Callable[..., None]]:
    """ply reads the grammar in the docstrings of functions, and orders rules, and so settles what is ambiguous, by the
    lines of their functions."""

    def marked(ours: Callable[..., None]) -> Callable[..., None]:
        ours.__doc__ = grammar or rule.__doc__
        ours.__dict__["co_firstlineno"] = rule.__code__.co_firstlineno
        return ours

    return marked


class Parser(QasmParser):
    """Reads one text. `fresh` makes one."""

    gate_set: Any
    basic_gates = BASIC  # what every text knows
    qelib_gates = LIBRARY  # what `include` adds

    _sums, _products, _powers = QasmParser.precedence
    precedence: Any = (_sums, _products, ("right", "SIGN"), _powers)

    def __init__(self) -> None:
        super().__init__()
        self.functions = FUNCTIONS
        self.binary_operators = OPERATORS
        self._operations: list[cirq.Operation] = []
        self._measured: set[str] = set()
        self._made = 0
        #: Of the gate that is being defined: parts of its largest angle, and of all of them.
        self._parts = self._work = 1
        #: Parts that calls have computed.
        self._worked = 0

    def read(self, text: str) -> cirq.Circuit:
        """Raises QasmException."""
        self.parse(text)
        return cirq.Circuit(self._operations)

    def declared(self) -> list[cirq.Qid]:
        """The qubits of all registers."""
        return [
            cirq.NamedQubit(f"{name}_{place}") for name, size in self.qregs.items() for place in range(size)
        ]

    def line(self) -> int:
        """The line that is being read, from 1."""
        return int(self.lexer.lex.lineno)

    def p_error(self, p: Any) -> None:
        raise Unexpected(len(self.qasm) if p is None else p.lexpos)

    @_in_place_of(QasmParser.p_circuit_gate_or_measurement_or_if)
    def p_circuit_gate_or_measurement_or_if(self, p: Any) -> None:
        # Cirq's appends each to its circuit, which takes most of the time.
        self._operations += p[2]
        self._check_count(len(self._operations), self.line())
        for op in p[2]:
            if isinstance(op.gate, cirq.MeasurementGate):
                self._measured.add(op.gate.key)
        p[0] = self.circuit

    @_in_place_of(QasmParser.p_expr_unary, "expr : '-' expr %prec SIGN\n| '+' expr %prec SIGN")
    def p_expr_unary(self, p: Any) -> None:
        p[0] = -p[2] if p[1] == "-" else p[2]

    def _resolve_gate_operation(self, args: Any, gate: str, p: Any, params: Any) -> None:
        line = p.lineno(1)
        if gate not in self.gate_set:
            raise QasmException(f"there is no gate '{gate}'{self._hint(gate)} at line {line}")
        self._check_angles(gate, params, line)
        super()._resolve_gate_operation(args, gate, p, params)
        p[0] = list(p[0])
        if not self.in_custom_gate_scope and any(isinstance(one, sympy.Basic) for one in params):
            self._check_writable(p[0], line)
        # Those of definitions too: each may be made of all that were before it.
        self._made += len(p[0])
        self._check_count(self._made, line)

    def _check_writable(self, operations: Sequence[cirq.Operation], line: int) -> None:
        for operation in operations:
            if function := function_in(operation):
                raise QasmException(
                    f"{function} of a symbol: symbols take + - * /, powers and sqrt; compute it before, and make the result an"
                    f" input of its own at line {line}"
                )

    def _check_angles(self, gate: str, params: Sequence[Angle], line: int) -> None:
        """Each level of gates in gates multiplies the parts of an angle, and the work of computing them."""
        called = self.gate_set[gate]
        most = max(map(size, params), default=1)
        parts, work = (called.parts, called.work) if isinstance(called, Gate) else (1, len(params))
        if self.in_custom_gate_scope:
            self._parts = max(self._parts, parts * most)
            self._work += work * most
            if self._parts > MOST_PARTS:
                raise QasmException(f"an angle of {gate} has more than {MOST_PARTS:,} parts at line {line}")
        if isinstance(called, Gate) and params:
            self._worked += work * most
            if self._worked > MOST_WORK:
                raise QasmException(
                    f"the angles of calls of gates have more than {MOST_WORK:,} parts at line {line}"
                )

    def _check_count(self, operations: int, line: int) -> None:
        if operations > MOST_OPERATIONS:
            raise QasmException(f"the circuit has more than {MOST_OPERATIONS:,} operations at line {line}")

    def _hint(self, gate: str) -> str:
        library = "stdgates.inc" if self.format_version == "3.0" else "qelib1.inc"
        if gate in self.qelib_gates:
            return f'; `include "{library}";` brings it'
        near = nearest(gate, self.gate_set)
        meant = f"; did you mean '{near}'" if near else ""
        return meant if self.qelibinc else f'{meant}; `include "{library}";` brings the usual ones'

    @_in_place_of(QasmParser.p_gate_ops)
    def p_gate_ops(self, p: Any) -> None:
        # From the last to the first; Cirq's makes a list for each.
        p[0] = p[2]
        p[0].append(p[1])

    def _gate_def(self, p: Any, *, has_params: bool) -> None:
        name, params = p[2], p[4] if has_params else []
        qubits, calls = p[6 if has_params else 3], p[8 if has_params else 5]
        if len({*params, *(qubit.name for qubit in qubits)}) < len(params) + len(qubits):
            raise QasmException(f"{name} has two parameters or qubits of one name at line {p.lineno(1)}")
        if name in ("U", "barrier"):
            raise QasmException(
                f"{name} is a word of the language: give the gate another name at line {p.lineno(1)}"
            )
        if isinstance(self.gate_set.get(name), Gate) and name not in self.qelib_gates:
            raise QasmException(f"{name} is defined twice at line {p.lineno(1)}")
        body = [op for call in reversed(calls) for op in call]
        if len(body) > MOST_IN_GATE:
            raise QasmException(f"{name} is more than {MOST_IN_GATE:,} operations at line {p.lineno(1)}")
        self.gate_set[name] = Gate(name, params, qubits, body, self._parts, self._work)
        self._parts = self._work = 1
        self.custom_gate_scoped_params.clear()
        self.custom_gate_scoped_qubits.clear()
        self.in_custom_gate_scope = False

    @_in_place_of(QasmParser.p_if)
    def p_if(self, p: Any) -> None:
        conditions: list[cirq.Condition] = []
        for bits, wanted in p[3]:
            if wanted >> len(bits):
                raise QasmException(
                    f"a register of {len(bits)} bit(s) is never {wanted} at line {p.lineno(1)}"
                )
            for index, bit in enumerate(bits):
                value = wanted >> index & 1
                if bit in self.input_params:
                    raise QasmException(
                        f"{bit} is an input and the name of a bit: rename it at line {p.lineno(1)}"
                    )
                if bit in self._measured:
                    conditions.append(_equal(bit, value))
                elif value:
                    raise QasmException(f"{bit} is not measured before, and so never 1 at line {p.lineno(1)}")
        p[0] = [op.with_classical_controls(*conditions) if conditions else op for op in p[5]]


@lru_cache(maxsize=1024)
def _equal(bit: str, value: int) -> cirq.Condition:
    return cirq.SympyCondition(sympy.Eq(sympy.Symbol(bit), value))


@cache
def _first() -> Parser:
    return Parser()


def _shared(parser: Parser) -> Iterator[object]:
    """What no parser changes: ply's tables, which it takes most of a parser's making to compute, and gates."""
    tables = parser.parser
    yield from (tables.action, tables.goto, tables.defaulted_states)
    for rule in tables.productions:
        yield from (rule.lr_items, rule.lr_next)
    yield from parser.gate_set.values()


def fresh() -> Parser:
    """A parser of one's own that has read nothing yet: a copy of the process's first one. Threads may have many."""
    with _making:
        first = _first()
    # Whatever is in the memo is taken for its own copy; methods of `first` become those of the copy.
    return copy.deepcopy(first, {id(one): one for one in _shared(first)})
