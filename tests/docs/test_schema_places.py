"""What an editor marks: `noetl schema` printed by another process, and faults at every level of a
playbook."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from tests import zygote

HEAD = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "places", "path": "test/places"},
}
#: A fault → where it is marked, from the step on (`.tool.kind`), or from the document on
#: (`$.keychain[0]`).
FAULTS = {
    # the document
    "$workflw: []": "$",
    "$workflow:": "$.workflow",
    "$workflow: {step: a}": "$.workflow",
    "$workflow: [start]": "$.workflow[0]",
    "$kind: Playbok": "$.kind",
    "$workload: [1]": "$.workload",
    "$executor: {profle: local}": "$.executor",
    "$executor: {spec: {entry_stp: a}}": "$.executor.spec",
    "$executor: {requires: {tools: [pyton]}}": "$.executor.requires.tools[0]",
    "$workbook: {ask: {kind: htp}}": "$.workbook.ask.kind",
    "$workbook: {ask: {kind: http, ulr: x}}": "$.workbook.ask",
    # the keychain
    "$keychain: [{kind: credential, credential: x}]": "$.keychain[0]",
    "$keychain: [{name: a, kind: sekret}]": "$.keychain[0].kind",
    "$keychain: {a: {kind: secret, provider: env, feld: x}}": "$.keychain.a",
    "$keychain: [{name: a, provider: env, feld: x}]": "$.keychain[0]",
    "$keychain: [{name: a, kind: bearer, tken: x}]": "$.keychain[0]",
    "$keychain: [{name: a, kind: static, map: [b]}]": "$.keychain[0].map",
    "$keychain: [{name: a, kind: oauth2, endpoint: x, daat: {}}]": "$.keychain[0]",
    "$keychain: [{name: a, kind: token}]": "$.keychain[0]",
    # steps, loops, arcs
    "stp: a": "",
    "set: [a]": ".set",
    "spec: {jon: all}": ".spec",
    "spec: {join: {count: x}}": ".spec.join.count",
    "spec: {policy: {failure: {mode: best_effort, tolerate: {cont: 3}}}}": ".spec.policy.failure.tolerate",
    "spec: {policy: {admit: {rules: [{when: x, then: {alow: true}}]}}}": ".spec.policy.admit.rules[0].then",
    "loop: {in: [1], iteratr: x}": ".loop",
    "loop: {in: [1], iterator: x, spec: {mode: paralel}}": ".loop.spec.mode",
    "loop: {in: [1], iterator: x, spec: {max_in_flight: many}}": ".loop.spec.max_in_flight",
    "loop: {cursor: {kind: http, claim: x}, iterator: x}": ".loop.cursor.kind",
    "next: {arcs: [{step: b, wen: x}]}": ".next.arcs[0]",
    "next: [{setp: b}]": ".next[0]",
    "next: {spec: {mode: exclusiv}, arcs: [{step: b}]}": ".next.spec.mode",
    "retry: {max_atempts: 3}": ".retry",
    "case: [{when: x, then: {nxt: b}}]": ".case[0].then",
    # tasks and their policy
    "tool: {kind: bash}": ".tool.kind",
    "tool: {url: x}": ".tool",
    "tool: [{ask: {kind: http, metod: GET, url: x}}]": ".tool[0].ask",
    "tool: {kind: noop, loop: {in: [1], iteratr: x}}": ".tool.loop",
    "tool: {kind: noop, spec: {policy: {rules: [{whn: x}]}}}": ".tool.spec.policy.rules[0]",
    "tool: {kind: noop, spec: {policy: {rules: [{else: {do: jump}}]}}}": ".tool.spec.policy.rules[0].else",
    "tool: {kind: noop, spec: {policy: {rules: [{else: {do: retry, attempts: 0}}]}}}": (
        ".tool.spec.policy.rules[0].else.attempts"
    ),
    # what a kind takes
    "tool: {kind: python}": ".tool",
    "tool: {kind: python, code: x, libs: 5}": ".tool.libs",
    "tool: {kind: python, code: x, libs: {pi: {form: math}}}": ".tool.libs.pi",
    "tool: {kind: python, script: {fil: x}}": ".tool.script",
    "tool: {kind: shell, command: 5}": ".tool.command",
    "tool: {kind: http, url: x, headers: [a]}": ".tool.headers",
    "tool: {kind: http, url: x, headers: {a: [b]}}": ".tool.headers.a",
    "tool: {kind: http, url: x, timeout: -1}": ".tool.timeout",
    "tool: {kind: http, url: x, timeout: {conect: 1}}": ".tool.timeout",
    "tool: {kind: http, url: x, timeout: {connect: 0}}": ".tool.timeout.connect",
    "tool: {kind: postgres, auth: x, command: y, params: 5}": ".tool.params",
    "tool: {kind: duckdb, command: y, files: [5]}": ".tool.files[0]",
    "tool: {kind: transfer, source: {kind: ftp}, target: {kind: result}}": ".tool.source.kind",
    "tool: {kind: transfer, source: {kind: http, ulr: x}, target: {kind: result}}": ".tool.source",
    "tool: {kind: transfer, source: {type: http, ulr: x}, target: {type: result}}": ".tool.source",
    "tool: {kind: quantum, builder: {name: ghz, qubit: 2}}": ".tool.builder",
    "tool: {kind: quantum, builder: {name: ghz, qubits: 2}, keep: [sampels]}": ".tool.keep[0]",
}


def _document(fault: str) -> Any:
    if fault.startswith("$"):
        return {**HEAD, "workflow": [{"step": "a"}], **yaml.safe_load(fault[1:])}
    given = yaml.safe_load(fault)
    tool = {} if "tool" in given else {"tool": {"kind": "noop"}}
    return {**HEAD, "workflow": [{"step": "a", **tool, **given}]}


@pytest.fixture(scope="module")
def checker() -> jsonschema.Draft202012Validator:
    done = zygote.run(["noetl", "schema"], check=True, capture_output=True)
    return jsonschema.Draft202012Validator(json.loads(done.stdout))


def test_a_fault_at_any_level_is_marked_where_it_is_and_nowhere_else(
    checker: jsonschema.Draft202012Validator,
) -> None:
    elsewhere = []
    for fault, place in FAULTS.items():
        wanted = place if place.startswith("$") else f"$.workflow[0]{place}"
        found = sorted({error.json_path for error in checker.iter_errors(_document(fault))})
        if found != [wanted]:
            elsewhere.append(f"{fault}: {found}, not {wanted}")
    assert "\n".join(elsewhere) == ""


@pytest.mark.parametrize(
    "right",
    [
        "tool: {kind: transfer, source: {type: http, url: '{{ u }}', method: GET}, target: {kind: '{{ k "
        "}}', mapping: {a: b}}}",
        "tool: {kind: python, libs: {pi: {from: math, import: pi}, os: os}, code: '{{ c }}'}",
        "tool: {kind: http, url: x, timeout: '{{ t }}', headers: '{{ h }}', params: [[a, 1], [a, 2]]}",
        "tool: {kind: http, url: x, timeout: {connect: '{{ t }}', x-why: slow}}",
        "$keychain: {a: {provider: env, name: A, scope: global}, b: {kind: credential, credential: c, "
        "x-owner: ada}}",
        "$keychain: [{name: a, kind: oauth2, endpoint: u, data: {client_id: i}}, {name: b, kind: token, "
        "auth: c}]",
        "$keychain: [{name: a, kind: static, of: mine}, {name: b, kind: static, map: {c: '{{ d }}'}}]",
    ],
)
def test_templates_other_spellings_and_free_keys_are_not_marked(
    checker: jsonschema.Draft202012Validator, right: str
) -> None:
    assert [f"{error.json_path}: {error.message}" for error in checker.iter_errors(_document(right))] == []
