"""Promises about one process: what it compiles, checks, masks and refuses, in seconds of a
processor, and the first database that it makes."""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path

from benchmarks.promises.model import Promise, elapsed, processor
from noetl.dsl import compile_playbook
from noetl.dsl.read.source import MAX_BYTES
from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.net.model import Net
from noetl.net.soundness import Sound, decide
from noetl.store.migrate import upgrade
from noetl.tools.kit.masking import SecretMask
from noetl.tools.kit.registry import kinds
from tests.integration.test_bad_inputs import BOMBS
from tests.integration.test_bad_inputs_documents import DOCUMENTS
from tests.playbooks.corpus import cases
from tests.properties.mutants import mutant

STEPS = 1_000
#: Mutants of one repetition.
MUTANTS = 100
#: First databases of one repetition.
STORES = 5

_HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: large, path: benchmarks/large}\n"
_EXAMPLES = Path(__file__).parents[2] / "examples"
#: What bombs are told.
_NAMES = {"few": {"a": 1}, "many": ["a" * 1000] * 10**6}
#: Each repetition has other mutants, each run the same ones.
_DRAW = random.Random(1)


def _compile(text: str | bytes) -> Net | None:
    return compile_playbook(text, file="large.yaml", kinds=kinds()).net


def _compile_well(text: str) -> Net:
    net = _compile(text)
    if net is None:
        raise RuntimeError("A playbook that is measured does not compile.")
    return net


def _worst(work: Iterable[Callable[[], object]]) -> list[float]:
    return [max(map(processor, work))]


# --- playbooks -----------------------------------------------------------------------------------


def _workflow(step: Callable[[int], str], steps: int = STEPS) -> str:
    return f"{_HEAD}workflow:\n" + "".join(map(step, range(steps)))


def _after(n: int, by: int = 1) -> int:
    return min(n + by, STEPS - 1)


def _chained(n: int) -> str:
    return (
        f"- step: s{n}\n  tool: {{kind: python, code: 'result = {n}'}}\n"
        f"  next: {{arcs: [{{step: s{_after(n)}, when: '{{{{ output.status }}}}'}}]}}\n"
    )


def _joined(n: int) -> str:
    return (
        f"- step: s{n}\n  spec: {{join: all}}\n"
        f"  tool: {{kind: noop, input: {{x: '{{{{ s{max(n - 1, 0)}.y }}}}'}}}}\n"
        f"  next: {{arcs: [{{step: s{_after(n)}, when: '{{{{ ctx.x }}}}'}}, {{step: s{_after(n, 2)}}}]}}\n"
    )


def _cyclic(n: int) -> str:
    return (
        f"- step: s{n}\n  tool: {{kind: noop, input: {{x: '{{{{ s{STEPS - 1 - n}.y }}}}'}}}}\n"
        f"  next: {{arcs: [{{step: s{_after(n)}, when: '{{{{ ctx.x }}}}'}}, {{step: s{n // 2}}}]}}\n"
    )


def _with_input(name: str, text: str) -> str:
    return f"{_HEAD}workflow:\n- step: a\n  tool: {{kind: noop, input: {{{name}: '{text}'}}}}\n"


#: What checks have most to do with: joins, cycles, what may be an address, or a placeholder,
#: aliases.
LARGE = (
    _workflow(_joined),
    _workflow(_cyclic),
    _with_input("x", "a.b.c-d+" * 20_000),
    _with_input("password", "x!" * 60_000 + "a"),
    f'{_HEAD}workload:\n  a: &a "' + "\\t" * 5_000 + '{{ b }} {{ c }} {{ d }}"\n'
    "  b: [" + "*a, " * 150 + "]\nworkflow: [{step: start}]\n",
)


def compile_steps() -> list[float]:
    return [processor(partial(_compile_well, _workflow(_chained)))]


def validate_large() -> list[float]:
    return _worst(partial(_compile, text) for text in LARGE)


def validate_mutants() -> list[float]:
    mutants = (mutant(_DRAW.choice(_seedlings()), _DRAW) for _ in range(MUTANTS))
    return _worst(partial(_compile, text) for text in mutants)


@cache
def _seedlings() -> Sequence[str]:
    examples = [file.read_text(encoding="utf-8") for file in sorted(_EXAMPLES.glob("*.yaml"))]
    return [*(_HEAD + case.body for case in cases()), *examples]


def refuse_documents() -> list[float]:
    return _worst(partial(_refuse, text) for text, *_ in DOCUMENTS.values())


def _refuse(text: str | bytes) -> None:
    if _compile(text) is not None:
        raise RuntimeError(f"A bad document was not refused: {text[:100]!r}")


def decide_soundness() -> list[float]:
    return [processor(partial(_decide_well, _blocks()))]


def _decide_well(net: Net) -> None:
    if not isinstance(verdict := decide(net), Sound):
        raise RuntimeError(f"A net that is measured is not sound: {verdict}")


@cache
def _blocks() -> Net:
    """A net of blocks of seven steps: two ways side by side that meet, and a choice behind them."""
    blocks = STEPS // 7

    def block(n: int) -> str:
        return (
            f"- {{step: f{n}, tool: {{kind: noop}}, next: {{spec: {{mode: inclusive}}, "
            f"arcs: [{{step: a{n}}}, {{step: b{n}}}]}}}}\n"
            f"- {{step: a{n}, tool: {{kind: noop}}, next: c{n}}}\n"
            f"- {{step: b{n}, tool: {{kind: noop}}, next: j{n}}}\n"
            f"- {{step: c{n}, tool: {{kind: noop}}, next: j{n}}}\n"
            f"- {{step: j{n}, spec: {{join: all}}, tool: {{kind: noop}}, next: {{"
            f"arcs: [{{step: d{n}, when: '{{{{ ctx.d }}}}'}}, {{step: e{n}}}]}}}}\n"
            f"- {{step: d{n}, tool: {{kind: noop}}, next: f{n + 1}}}\n"
            f"- {{step: e{n}, tool: {{kind: noop}}, next: f{n + 1}}}\n"
        )

    return _compile_well(f"{_workflow(block, blocks)}- {{step: f{blocks}, tool: {{kind: noop}}}}\n")


# --- values and texts ----------------------------------------------------------------------------


def mask_secrets() -> list[float]:
    rows = [{"id": n, "name": f"name {n}", "city": "x" * 20} for n in range(50_000)]
    mask = SecretMask()
    mask.add(["Kanari/1+x\"y'z é"])
    written = processor(partial(json.dumps, rows))
    return [processor(partial(mask.value, rows)) / written]


def end_bombs() -> list[float]:
    return _worst(partial(_end, template) for template in BOMBS)


def _end(template: str) -> None:
    try:
        evaluate(template, _NAMES)
    except TemplateError:
        return
    raise RuntimeError(f"A template was not refused: {template}")


def read_qasm() -> list[float]:
    from tests.unit.tools.quantum.test_qasm import REFUSED, VALID  # Cirq takes a second to import

    texts = (*VALID, *(text for text, *_ in REFUSED))
    return _worst(partial(_read_qasm, text) for text in texts if len(text) <= MAX_BYTES)


def _read_qasm(text: str) -> None:
    from noetl.quantum.circuits import qasm
    from noetl.quantum.circuits.qasm_tokens import QasmError

    with contextlib.suppress(QasmError):
        qasm.read(text)


def make_stores() -> list[float]:
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        return [elapsed(partial(upgrade, f"sqlite:///{folder}/{n}.sqlite")) for n in range(STORES)]


PROMISES = (
    Promise("compiling", "a playbook of 1,000 steps is compiled", 3.0, "s", compile_steps),
    Promise("large documents", "a document is validated, whatever it is full of", 4.0, "s", validate_large),
    Promise("mutants", f"each of {MUTANTS} playbooks with mistakes is validated", 2.0, "s", validate_mutants),
    Promise(
        "bad documents", "what is no document of ours, or a bomb, is refused", 2.0, "s", refuse_documents
    ),
    Promise("soundness", "a net of 1,000 steps is found sound", 0.1, "s", decide_soundness),
    Promise("masking", "secrets are looked for in a value, to writing it as JSON", 5.0, "×", mask_secrets),
    Promise("template bombs", "a template that asks for too much is ended", 1.0, "s", end_bombs),
    Promise("OpenQASM", "a text that a playbook has room for is read, or refused", 2.0, "s", read_qasm),
    Promise("first store", "the first SQLite store of a home is made", 0.3, "s", make_stores),
)
