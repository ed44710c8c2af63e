"""Reads OpenQASM 2 and 3 into circuits, in one pass over the words and marks of a text.

Gates that a text defines are put in the place of their calls, and every number that an author
controls is bounded: what a text may cost is known before it is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias, TypeVar

import cirq
import sympy

from noetl.quantum.circuits.qasm_angles import Angle, AngleReader
from noetl.quantum.circuits.qasm_gates import GateSet
from noetl.quantum.circuits.qasm_tokens import CONDITIONS, NO_GATES, REGISTERS, QasmToken, tokenize

Form: TypeAlias = Literal["qasm2", "qasm3"]
T = TypeVar("T")

#: Qubits and bits of all registers.
MOST_BITS: Final = 10_000
#: Texts whose circuits are kept.
_KEPT: Final = 16

_LIBRARIES: Final = frozenset({"qelib1.inc", "stdgates.inc"})
_VALUES: Final = {"true": 1, "false": 0}


def read(text: str) -> tuple[cirq.Circuit, Form]:
    """The circuit of an OpenQASM text, and its version. Raises QasmError, which names the line.

    Qubits are called `<register>_<index>`, and so are measurement keys. Angles are radians.
    """
    circuit, form, _ = _read(text)
    return circuit.unfreeze(), form


def idle(text: str) -> tuple[cirq.Qid, ...]:
    """The qubits of registers on which nothing acts, in their order. Raises QasmError."""
    return _read(text)[2]


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> tuple[cirq.FrozenCircuit, Form, tuple[cirq.Qid, ...]]:
    version, tokens = tokenize(text)
    parser = _Parser(version, tokens)
    circuit = cirq.FrozenCircuit(parser.read())
    form: Form = "qasm3" if version == "3.0" else "qasm2"
    return circuit, form, tuple(sorted(parser.qubits - circuit.all_qubits()))


class _Parser(AngleReader):
    def __init__(self, version: str, tokens: Sequence[QasmToken]) -> None:
        super().__init__(version, tokens)
        self._gates = GateSet(version)
        self._qubits: dict[str, list[cirq.Qid]] = {}
        self._bits: dict[str, list[str]] = {}
        self._declared = 0
        self._measured: set[str] = set()
        self._operations: list[cirq.Operation] = []
        self._began = False
        #: The qubits of the gate that is being defined.
        self._places: dict[str, cirq.Qid] = {}

    @property
    def qubits(self) -> set[cirq.Qid]:
        """The qubits of all registers."""
        return {qubit for register in self._qubits.values() for qubit in register}

    def read(self) -> list[cirq.Operation]:
        """The operations of the circuit. Raises QasmError."""
        statements = {
            "include": self._include,
            "input": self._declare_input,
            "gate": self._define,
            "if": self._read_condition,
            "measure": self._measure,
            "reset": self._reset,
            **dict.fromkeys(REGISTERS, self._declare),
        }
        while self._token.kind != "end":
            head = self._begin()
            if not self._accept(";"):
                statements.get(head.text, self._call_or_assign)()
                self._began |= head.text != "include"
        return self._operations

    def _include(self) -> None:
        """Before all that may use it: a library's gates would replace those defined before."""
        head, library = self._next(), self._token
        if library.text == '"':
            raise self._make_refusal()
        self._next()
        if library.kind != "string" or not self._accept(";"):
            raise library.error('`include` takes one library: `include "qelib1.inc";`')
        if library.text[1:-1] not in _LIBRARIES:
            raise library.error(f"{library.text[:80]} is not known: there are qelib1.inc and stdgates.inc")
        if self._began:
            raise head.error("`include` stands before all other statements, behind the version")
        self._gates.include()

    def _declare(self) -> None:
        """`qreg a[2];`, `qubit[2] a;`, `bit[2] b = measure q;`"""
        head = self._next()
        if head.text in ("qreg", "creg"):
            name, length = self._read_new_name(), self._read_index()
        else:
            length = self._read_index() if self._token.text == "[" else 1
            name = self._read_new_name()
        if length == 0:
            raise head.error(f"Illegal, zero-length register '{name}'")
        self._declared += length
        if self._declared > MOST_BITS:
            raise head.error(f"the registers have more than {MOST_BITS:,} qubits and bits")
        names = [f"{name}_{index}" for index in range(length)]
        if head.text in ("qreg", "qubit"):
            self._qubits[name] = [cirq.NamedQubit(one) for one in names]
        else:
            self._bits[name] = names
            if head.text == "bit" and self._token.text == "=":
                self._assign(names)
                return
        self._expect(";")

    def _read_new_name(self) -> str:
        name = self._read_name()
        if name.text in self._qubits or name.text in self._bits or name.text in self._inputs:
            raise name.error(f"{name.text} is already defined")
        return name.text

    def _declare_input(self) -> None:
        """`input float[64] theta;`"""
        head = self._next()
        if self._version != "3.0":
            raise head.error("'input' modifier is only supported in OpenQASM 3.0")
        self._expect("float", "angle")
        if self._token.text == "[" and self._read_index() == 0:
            raise head.error("Illegal bit width of zero for an input")
        self._inputs.add(self._read_new_name())
        self._expect(";")

    def _define(self) -> None:
        """`gate g(t) x, y { rx(t/2) x; cx x, y; }`"""
        head, name, params = self._next(), self._read_name().text, list[str]()
        self._gates.begin(head, name)
        if self._accept("(") and not self._accept(")"):
            params = self._read_names()
            self._expect(")")
        qubits = self._read_names()
        self._expect("{")
        if len({*params, *qubits}) < len(params) + len(qubits):
            raise head.error(f"{name} has two parameters or qubits of one name")
        self._params = {param: sympy.Dummy(param) for param in params}
        self._places = {qubit: cirq.NamedQubit(qubit) for qubit in qubits}
        body = self._read_block(head)
        self._gates.define(head, name, [*self._params.values()], [*self._places.values()], body)
        self._params = None

    def _call_or_assign(self) -> None:
        if self._behind.text in ("=", "["):
            self._assign(self._read_argument(self._bits, "creg"))
        else:
            self._operations += self._call()

    def _assign(self, bits: Sequence[str]) -> None:
        """`c = measure q;`, behind `c`"""
        self._expect("=")
        self._expect("measure")
        self._measure_into(self._read_qubits(), bits)
        self._expect(";")

    def _measure(self) -> None:
        """`measure q -> c;`"""
        self._next()
        qubits = self._read_qubits()
        self._expect("->")
        self._measure_into(qubits, self._read_argument(self._bits, "creg"))
        self._expect(";")

    def _measure_into(self, qubits: Sequence[cirq.Qid], bits: Sequence[str]) -> None:
        if len(qubits) != len(bits):
            raise self._head.error(f"mismatched register sizes {len(qubits)} -> {len(bits)} for measurement")
        self._operations += [
            cirq.MeasurementGate(1, key=bit).on(qubit) for qubit, bit in zip(qubits, bits, strict=True)
        ]
        self._measured.update(bits)
        self._gates.count(self._head, len(bits))

    def _reset(self) -> None:
        """`reset q;`"""
        self._next()
        qubits = self._read_qubits()
        self._expect(";")
        self._operations += [cirq.ResetChannel().on(qubit) for qubit in qubits]
        self._gates.count(self._head, len(qubits))

    def _read_condition(self) -> None:
        """`if (c == 1 && d[0]) { x q[0]; }`"""
        owner = self._next()
        self._expect("(")
        self._opened = self._at
        terms = list(self._read_list(self._read_term, "&&"))
        self._expect(")")
        body = self._read_block(owner) if self._accept("{") else self._call_inside(owner)
        controls = [control for term in terms for control in self._make_controls(*term)]
        self._operations += [op.with_classical_controls(*controls) if controls else op for op in body]

    def _read_term(self) -> tuple[QasmToken, Sequence[str], int]:
        """The place of a condition, the bits that it is about, and the value that is asked for."""
        self._check_inside()
        negation = self._token if self._accept("!") else None
        place, is_bit = self._token, self._behind.text == "["
        if negation and not is_bit:
            raise negation.error(CONDITIONS)
        bits = self._read_argument(self._bits, "creg")
        if is_bit and (negation or self._token.text in ("&&", ")")):
            return place, bits, int(negation is None)
        self._expect("==")
        return place, bits, _VALUES[self._next().text] if self._token.text in _VALUES else self._read_number()

    def _make_controls(self, place: QasmToken, bits: Sequence[str], wanted: int) -> Iterator[cirq.Condition]:
        """One condition for each bit that was measured; the others are 0."""
        if wanted >> len(bits):
            raise place.error(f"a register of {len(bits)} bit(s) is never {wanted}")
        for index, bit in enumerate(bits):
            value = wanted >> index & 1
            if bit in self._inputs:
                raise place.error(f"{bit} is an input and the name of a bit: rename it")
            if bit in self._measured:
                yield cirq.SympyCondition(sympy.Eq(sympy.Symbol(bit), value))
            elif value:
                raise place.error(f"{bit} is not measured before, and so never 1")

    def _read_block(self, owner: QasmToken) -> list[cirq.Operation]:
        """The gates up to the end of a body."""
        found: list[cirq.Operation] = []
        while not self._accept("}"):
            if self._token.kind == "end":
                raise owner.error(f"the body of this {owner.text} is never closed: a '}}' is missing")
            if not self._accept(";"):
                found += self._call_inside(owner)
        return found

    def _call_inside(self, owner: QasmToken) -> list[cirq.Operation]:
        head = self._begin()
        if head.text in NO_GATES:
            both_if = head.text == owner.text == "if"
            hint = "join the conditions with `&&`" if both_if else "it has gates and nothing else"
            raise head.error(f"`{head.text}` in the body of `{owner.text}`: {hint}")
        return self._call()

    def _call(self) -> list[cirq.Operation]:
        """`rx(pi/2) q[0];`"""
        name, angles, args = self._read_name(), list[Angle](), list[Sequence[cirq.Qid]]()
        try:
            if self._accept("(") and not self._accept(")"):
                self._depth, self._opened = 1, self._at
                angles = list(self._read_list(self._read_angle, ","))
                self._expect(")")
            if name.text != "barrier" or self._token.text != ";":
                args = list(self._read_list(self._read_qubits, ","))
            self._expect(";")
            return self._gates.call(name, angles, args)
        except RecursionError:
            raise name.error("an angle is nested too deep") from None
        except (ValueError, TypeError, ArithmeticError) as error:
            raise name.error(str(error)) from None

    def _read_qubits(self) -> Sequence[cirq.Qid]:
        """A register of qubits, or one of them; in the body of a gate, one of the gate's qubits."""
        if self._params is None:
            return self._read_argument(self._qubits, "qreg")
        name = self._read_name()
        if self._token.text == "[":
            one = f"{name.text}[{self._read_index()}]"
            raise name.error(f"'{one}' in the body of a gate: name the gate's own qubits")
        if name.text in self._places:
            return [self._places[name.text]]
        if name.text in self._qubits:
            raise name.error(f"'{name.text}' is a register, not a qubit")
        raise name.error(f"Undefined qubit '{name.text}': the body of a gate has the gate's own qubits")

    def _read_argument(self, registers: Mapping[str, list[T]], word: str) -> Sequence[T]:
        """A register, or one of its qubits or bits."""
        name = self._read_name()
        index = self._read_index() if self._token.text == "[" else None
        register = registers.get(name.text)
        kind, one = ("quantum", "qubit") if word == "qreg" else ("classical", "bit")
        if register is None:
            how = f"declare it before, as in `{word} {name.text}[2];`"
            raise name.error(f'Undefined {kind} register "{name.text}": {how}')
        if index is None:
            return register
        if index >= len(register):
            where = f"on register {name.text} of size {len(register)}"
            raise name.error(f"Out of bounds {one} index {index} {where}: indices count from 0")
        return [register[index]]
