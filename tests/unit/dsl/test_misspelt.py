"""A key that is a slip for one that means something is an error, wherever it stands; no other key
is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.dsl.document import Document, DocumentPart, known_keys
from noetl.dsl.document.base import parts_of
from noetl.dsl.document.misspelt import slip_for
from noetl.dsl.problems import Path
from noetl.dsl.read.source import read
from noetl.tools.kit.registry import kinds

KINDS = kinds()

#: Every part of the canonical form, with every key that is checked where it stands.
CANONICAL = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: m, path: a/m}
executor:
  requires: {tools: [http], noetl: ">=0.0.1"}
  spec: {entry_step: start, final_step: end, policy: {failure: {mode: best_effort, tolerate: {count: 1, percent: 2}}}}
workload: {a: 1}
ctx: {n: 0, found: []}
workbook: {ask: {kind: http, url: u, desc: asks}}
workflow:
- step: start
  desc: begins
  input: {a: 1}
  set: {ctx.n: 1}
  spec:
    join: {mode: count, count: 1, cancel_rest: true}
    timeout: 5
    policy: {admit: {on_deny: skip, rules: [{when: "{{ a }}", then: {allow: true}, else: {then: {allow: true}}}]}}
  loop:
    in: [1]
    iterator: n
    spec: {mode: parallel, max_in_flight: 2, reduce: {found: append}, commit: each}
  tool:
  - name: ask
    kind: http
    url: u
    method: GET
    assert: {expects: [a], returns: [body]}
    pagination: {type: page, param: page, size: 2, items: rows, max_pages: 3, delay: 1}
    spec:
      timeout: 3
      result: {inline_bytes: 5, select: [{path: a, as: b}], scope: step, ttl: 5}
      policy:
        rules:
        - when: "{{ output.error }}"
          then: {do: retry, attempts: 2, backoff: fixed, delay: 1, jitter: 1, set: {iter.x: 1}}
        - else: {then: {do: jump, to: more}}
    input: {a: 1}
  - name: more
    kind: http
    url: u
    repeat: {next: [{when: "{{ output.data }}", params: {a: 1}}], max: 3, collect: {path: a, strategy: append, into: found}}
  - name: last
    kind: noop
    loop: {in: [1], iterator: m}
  next:
    spec: {mode: inclusive, no_next_is_error: true}
    arcs: [{step: rows, when: "{{ ctx.n }}", args: {b: 1}, set: {ctx.n: 2}}]
- step: rows
  loop:
    cursor: {kind: sqlite, database: d.db, claim: "UPDATE t SET a = :b RETURNING a", params: {b: 1}, spec: {timeout: 3}}
    iterator: row
    spec: {frame: {max_rows: 3}}
  tool: {kind: noop}
  next: end
- step: end
"""

#: Parts that only other dialects have.
OTHERS = (
    """
apiVersion: noetl.io/v2
kind: Playbook
variables: {a: 1}
tasks: {fetch: {actions: [{action: http, url: u}], parallel: true}}
workflow:
- step: start
  rules: [{when: "{{ a }}", run: fetch}, {next: end}]
- step: more
  run: fetch
  next: [{when: "{{ a }}", then: [end], else: [end]}]
- step: end
""",
    """
apiVersion: noetl.io/v2
kind: Playbook
workflow:
- step: start
  tool: {kind: http, url: u}
  vars: {a: "{{ start }}"}
  case: [{when: "{{ a }}", then: {next: [{step: end, args: {c: 1}}], sink: {tool: {kind: noop}}}}]
  retry: {max_attempts: 3, delay: 1, backoff: fixed, when: "{{ error }}"}
- step: end
""",
)

#: Keys whose absence or other place says more than the slip itself: they have an error of their
#: own.
ELSEWHERE = {"step", "kind", "url", "actions", "action", "claim"}


def compiled(data: Any) -> Compiled:
    return compile_playbook(json.dumps(data), file="p.yaml", kinds=KINDS)


def variants(key: str) -> Iterator[str]:
    yield key + "q"
    yield key.capitalize()
    yield f"{key[:1]}-{key[1:]}"
    if len(key) > 2:
        yield f"{key}s"
        yield f"{key[0]}{key[2]}{key[1]}{key[3:]}"
        yield key[:-1]


def renamed(data: Any, path: Path, old: str, new: str) -> Any:
    changed = copy.deepcopy(data)
    inner = changed
    for part in path:
        inner = inner[part]
    items = list(inner.items())
    inner.clear()
    inner.update({new if key == old else key: value for key, value in items})
    return changed


def keys_of_parts(data: Any) -> Iterator[tuple[DocumentPart, Path, str]]:
    for part, path in parts_of(Document.model_validate(data)):
        if path[:1] != ("metadata",):
            inner = data
            for key in path:
                inner = inner[key]
            yield from ((part, path, key) for key in inner if key in known_keys(type(part)))


@pytest.mark.full("6 s: every key")
@pytest.mark.parametrize("text", [CANONICAL, *OTHERS], ids=["canonical", "rules", "classic"])
def test_every_slip_in_every_key_of_every_part_is_an_error_that_names_the_key(text: str) -> None:
    data = read(text, "p.yaml").data
    assert [str(one) for one in compiled(data).errors] == []
    silent, checked = [], list[str]()
    for part, path, key in keys_of_parts(data):
        words = set(known_keys(type(part)))
        slips = [slip for slip in variants(key) if slip and slip not in words]
        # Two of them: over all keys each way to slip comes often enough.
        for slip in (slips + slips)[len(checked) % len(slips) :][:2]:
            checked.append(slip)
            found = compiled(renamed(data, path, key, slip)).errors
            if not any(f"'{key}'" in one.hint or key in ELSEWHERE for one in found):
                silent.append(f"{path} {key} -> {slip}: {[str(one) for one in found]}")
    assert "\n".join(silent) == ""


@pytest.mark.parametrize(
    ("where", "codes"),
    [
        ("metadata: {name: m, pat: a}", [Code.UNKNOWN_KEY]),
        ("metadata: {name: m, owner: ada}", []),
        ("metadata: {name: m, x-pat: a}", []),
        ("x-workflow: 1", []),
        ("remarks: 1", [Code.UNKNOWN_KEY]),
        ("Workload: {}", [Code.MISSPELT_KEY]),
        ("work-load: {}", [Code.MISSPELT_KEY]),
    ],
)
def test_metadata_is_forgiven_and_keys_of_ones_own_are_free(where: str, codes: list[Code]) -> None:
    text = f"apiVersion: noetl.io/v2\nkind: Playbook\n{where}\nworkflow: [{{step: start}}]\n"
    assert [one.code for one in compile_playbook(text, file="p", kinds=KINDS).problems] == codes


@pytest.mark.parametrize(
    ("key", "known", "given", "meant"),
    [
        ("tools", {"tool", "next"}, (), "tool"),
        ("queries", {"query"}, (), "query"),
        ("maxInFlight", {"max_in_flight"}, (), "max_in_flight"),
        ("max-in-flight", {"max_in_flight"}, (), "max_in_flight"),
        ("nxet", {"next", "tool"}, (), "next"),
        # Words that mean something elsewhere were misplaced, not mistyped.
        ("args", {"arcs", "spec"}, (), None),
        ("pool", {"tool"}, (), None),
        ("when", {"then"}, (), None),
        # What is short has neighbours by chance: it counts where the short one is missing.
        ("id", {"in", "mode"}, {"in"}, None),
        ("im", {"in", "mode"}, {"mode"}, "in"),
        ("get", {"set"}, {"set"}, None),
        ("descr", {"desc"}, (), "desc"),
        ("headline", {"header"}, (), None),
        # Words without vowels are short for longer ones rather than slips for others.
        ("cmd", {"cwd", "command"}, (), "command"),
        ("", {"in"}, (), None),
        ("-", {"in"}, (), None),
    ],
)
def test_what_counts_as_a_slip(key: str, known: set[str], given: set[str], meant: str | None) -> None:
    assert slip_for(key, known, given) == meant


def test_what_was_registered_before_is_read_as_it_was() -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: [{step: start, tools: {kind: noop}}]\n"
    assert compile_playbook(text, file="p", kinds=KINDS).net is None
    old = compile_playbook(text, file="p", kinds=KINDS, lenient=True)
    assert old.net is not None
    assert [(one.code, one.severity) for one in old.problems] == [(Code.MISSPELT_KEY, "warning")]
