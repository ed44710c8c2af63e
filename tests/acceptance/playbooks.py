"""Playbooks that the acceptance tests run. Tasks append what they really did to the file
`effects`."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

#: Every iteration writes `execution index begin end pid` once it has done its work (one write:
#: lines stay whole).
WORK = """
import os, time
begin = time.time()
time.sleep(nap)
if effects:
    line = f"{execution} {n} {begin} {time.time()} {os.getpid()}\\n"
    handle = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)
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
workload: {{items: 12, width: 4, nap: 0.0, effects: ""}}
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
workload: {{items: [], width: 4, nap: 0.0, effects: ""}}
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
      code: |
{_indented(WORK, 8)}
    next: end
  - step: end
"""
)

#: Two steps of 100 ms.
TWO_STEPS = (
    head("two_steps")
    + """
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import time
        time.sleep(0.1)
        result = 1
    next: end
  - step: end
    tool:
      kind: python
      input: {before: "{{ start }}"}
      code: |
        import time
        time.sleep(0.1)
        result = before + 1
"""
)


def squares(items: int) -> int:
    """What LOOP yields."""
    return sum(n * n for n in range(items))


def read_effects(effects: Path) -> list[tuple[str, int, float, float]]:
    """(execution, index, begin, end) of every iteration that did its work, in order of their
    ends."""
    lines = [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []
    return [(line[0], int(line[1]), float(line[2]), float(line[3])) for line in lines]


def counted(effects: Path) -> Counter[tuple[str, int]]:
    """How often each iteration of each execution did its work."""
    return Counter((execution, index) for execution, index, _, _ in read_effects(effects))


def overlap(effects: Path, execution: str) -> int:
    """The most iterations of one execution that were at work at the same instant."""
    edges = sorted(
        edge
        for who, _, begin, end in read_effects(effects)
        if who == execution
        for edge in ((begin, 1), (end, -1))
    )
    most = now = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most
