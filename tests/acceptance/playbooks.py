"""Playbooks that the acceptance tests run. Tasks append what they really did to the file
`effects`."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

#: What stands between two looks at a gate.
_PAUSE_S = 0.01

#: Every iteration writes `execution index +` when it begins and `execution index -` once it has
#: done its work (one write each: lines stay whole). It waits in between where `gate` is the folder
#: of a `Gate`.
WORK = f"""
import os, pathlib, time

def tell(sign):
    if effects:
        handle = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{{execution}} {{n}} {{sign}}\\n".encode())
        os.close(handle)

tell("+")
if gate:
    (pathlib.Path(gate) / f"came-{{execution}}-{{n}}").touch()
    while not (pathlib.Path(gate) / "open").exists():
        time.sleep({_PAUSE_S})
time.sleep(nap)
tell("-")
result = n * n
"""

_HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: acceptance/{name}}}
"""


def _indented(code: str, by: int) -> str:
    return "\n".join(" " * by + line for line in code.strip().splitlines())


def head(name: str) -> str:
    return _HEAD.format(name=name).strip() + "\n"


def note(words: str) -> str:
    """A task that appends `execution words` to the file `workload.effects` (one write: lines stay
    whole). `words` may have templates."""
    return f"{{kind: shell, command: 'echo {{{{ execution_id }}}} {words} >> {{{{ workload.effects }}}}'}}"


def notes(effects: Path, execution: str) -> list[str]:
    """What tasks of the execution have noted so far, in that order. What a kill interrupts is
    called again: what stands there several times in a row counts once."""
    lines = effects.read_text().splitlines() if effects.exists() else []
    own = [line.partition(" ")[2] for line in lines if line.startswith(f"{execution} ")]
    return [words for words, _ in groupby(own)]


#: A list is made, squared in a parallel loop, and summed up: `sum(n * n for n in range(items))`.
LOOP = (
    head("loop")
    + f"""
workload: {{items: 12, width: 4, nap: 0.0, effects: "", gate: ""}}
workflow:
  - step: start
    tool:
      kind: python
      input: {{items: "{{{{ workload.items }}}}"}}
      code: result = list(range(items))
    next: work
  - step: work
    loop: {{in: "{{{{ start }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: "{{{{ workload.width }}}}"}}}}
    tool:
      kind: python
      input:
        n: "{{{{ iter.n }}}}"
        nap: "{{{{ workload.nap }}}}"
        execution: "{{{{ execution_id }}}}"
        effects: "{{{{ workload.effects }}}}"
        gate: "{{{{ workload.gate }}}}"
      code: |
{_indented(WORK, 8)}
    next: end
  - step: end
    tool:
      kind: python
      input: {{results: "{{{{ work.results }}}}"}}
      code: result = sum(results)
"""
)

#: The same loop on the queue of the threads pool.
THREADED_LOOP = LOOP.replace("acceptance/loop", "acceptance/threaded").replace(
    "  - step: work\n", "  - step: work\n    spec: {queue: default}\n"
)

#: The same loop, committing what has ended in batches: its work has no effects that must not be
#: repeated.
BATCHED_LOOP = LOOP.replace("acceptance/loop", "acceptance/batched").replace(
    "spec: {mode: parallel,", "spec: {mode: parallel, commit: batch,"
)

#: The same loop, asking a server of the test at `workload.url`, which does the work and answers
#: `{"squared": n * n}`.
ASKING_LOOP = (
    head("asking")
    + """
workload: {items: 12, width: 4, nap: 0.0, effects: "", url: ""}
workflow:
  - step: start
    tool:
      kind: python
      input: {items: "{{ workload.items }}"}
      code: result = list(range(items))
    next: work
  - step: work
    loop: {in: "{{ start }}", iterator: n, spec: {mode: parallel, max_in_flight: "{{ workload.width }}"}}
    tool:
      kind: http
      url: "{{ workload.url }}/{{ execution_id }}/{{ iter.n }}"
    next: end
  - step: end
    tool:
      kind: python
      input: {results: "{{ work.results }}"}
      code: result = sum(one["data"]["squared"] for one in results)
"""
)

#: Only a loop and a last step without tool: nothing but the loop's end asks for a turn.
BARE_LOOP = (
    head("bare")
    + f"""
workload: {{items: [], width: 4, nap: 0.0, effects: "", gate: ""}}
workflow:
  - step: start
    loop: {{in: "{{{{ workload.items }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: "{{{{ workload.width }}}}"}}}}
    tool:
      kind: python
      input:
        n: "{{{{ iter.n }}}}"
        nap: "{{{{ workload.nap }}}}"
        execution: "{{{{ execution_id }}}}"
        effects: "{{{{ workload.effects }}}}"
        gate: "{{{{ workload.gate }}}}"
      code: |
{_indented(WORK, 8)}
    next: end
  - step: end
"""
)

#: Two steps, one behind the other.
TWO_STEPS = (
    head("two_steps")
    + """
workflow:
  - step: start
    tool: {kind: python, code: result = 1}
    next: end
  - step: end
    tool: {kind: python, input: {before: "{{ start }}"}, code: result = before + 1}
"""
)


def squares(items: int) -> int:
    """What LOOP yields."""
    return sum(n * n for n in range(items))


def read_effects(effects: Path) -> list[tuple[str, int, str]]:
    """(execution, index, "+" or "-") of every beginning and end, in their order."""
    lines = [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []
    return [(execution, int(index), sign) for execution, index, sign in lines]


def counted(effects: Path) -> Counter[tuple[str, int]]:
    """How often each iteration of each execution did its work."""
    return Counter((execution, index) for execution, index, sign in read_effects(effects) if sign == "-")


def overlap(effects: Path, execution: str) -> int:
    """The most iterations of one execution that were at work at once."""
    most = now = 0
    for who, _, sign in read_effects(effects):
        if who == execution:
            now += 1 if sign == "+" else -1
            most = max(most, now)
    return most
