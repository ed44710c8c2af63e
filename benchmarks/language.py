"""The compiler: `python -m benchmarks.language [--reps N]`.

A playbook of 1,000 steps, each with python code, three templates of its own and a router, as large
as a document may be. Measured are the compilation in a process that has compiled before, as in a
server, and `noetl validate` as people type it, with the start of its process. The raw data go to
`benchmarks/results/latest.json` under `language`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from noetl.dsl import compile_playbook
from noetl.tools.kit.registry import kinds

STEPS = 1_000
_STEP = """\
- step: s{n}
  tool:
    kind: python
    input: {{n: "{{{{ s{before}.total | default({n}) }}}}"}}
    code: "result = {{'total': n + {n}}}"
    set: {{ctx.last: "{{{{ output.total * {n} }}}}"}}
  next: {{arcs: [{{step: s{after}, when: "{{{{ ctx.last > {n} }}}}"}}, {{step: s{last}}}]}}
"""


def playbook(steps: int = STEPS) -> str:
    """A playbook of so many steps, none of whose templates occurs twice."""
    last = steps - 1
    numbers = range(last)
    body = "".join(_STEP.format(n=n, before=max(n - 1, 0), after=n + 1, last=last) for n in numbers)
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: large, path: large}\nworkflow:\n"
    return f"{head}{body}- {{step: s{last}, tool: {{kind: noop}}}}\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=__doc__)
    parser.add_argument("--reps", type=int, default=5, help="samples of each (default: 5)")
    args = parser.parse_args(argv)
    latest = report.RESULTS / "latest.json"
    found = json.loads(latest.read_text()) if latest.exists() else {}
    found["language"] = {
        "command": " ".join(["python -m benchmarks.language", *map(machine.bare, argv or sys.argv[1:])]),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **_measured(args.reps),
    }
    latest.write_text(json.dumps(found, indent=1) + "\n")
    print(report.language(found["language"]))
    return 0


def _measured(reps: int) -> dict[str, Any]:
    text, known = playbook(), kinds()
    slow, compiled, validated = [], [], []
    with tempfile.TemporaryDirectory(prefix="noetl-bench-language-") as folder:
        file = Path(folder, "large.yaml")
        file.write_text(text)
        _compile(text, known)
        for _ in range(reps):
            slow.append(round(machine.slowness(), 2))
            compiled.append(_compile(text, known))
            validated.append(_validate(file))
    return {
        "steps": STEPS,
        "bytes": len(text),
        "compile_s": compiled,
        "validate_s": validated,
        "slowness": slow,
    }


def _compile(text: str, known: Any) -> float:
    began = time.perf_counter()
    found = compile_playbook(text, file="large.yaml", kinds=known)
    spent = time.perf_counter() - began
    if found.problems:
        raise RuntimeError(f"The playbook has problems: {found.problems[0]}")
    return round(spent, 3)


def _validate(file: Path) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "noetl", "validate", str(file)], check=True, capture_output=True)
    return round(time.perf_counter() - began, 3)


if __name__ == "__main__":
    sys.exit(main())
