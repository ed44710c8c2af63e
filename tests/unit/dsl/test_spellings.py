"""Other spellings of keys: each means what the canonical one says, which wins where both stand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.dsl.read.canonical_text import canonical_text
from noetl.net.codec import same_net
from noetl.tools.kit.registry import kinds

Compile = Callable[[str], Compiled]
HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\n"


@pytest.fixture(scope="module")
def body() -> Compile:
    """Compiles a text below a header with the kinds that are installed; its first line is line
    4."""
    head = f"{HEADER}metadata: {{name: sample}}\n"
    return lambda text: compile_playbook(head + text, file="sample.yaml", kinds=kinds())


#: A tool as authors write it, and in the canonical form.
TOOLS = {
    "input under spec": (
        '{kind: python, spec: {input: {net: "{{ execution_id }}"}}, code: pass}',
        '{kind: python, input: {net: "{{ execution_id }}"}, code: pass}',
    ),
    "of inputs those beside kind win, then input, then args": (
        "{kind: noop, spec: {with: {a: 1, b: 1, c: 1, d: 1}, args: {a: 2, b: 2, c: 2}, input: {a: 3, b: "
        "3}}, args: {a: 4}}",
        "{kind: noop, args: {a: 4}, input: {b: 3, c: 2, d: 1}}",
    ),
    "with beside kind is no rival of input": (
        "{kind: noop, input: {a: 1}, spec: {input: {a: 2, b: 2}}}",
        "{kind: noop, input: {a: 1, b: 2}}",
    ),
    "credential": (
        "{kind: postgres, credential: harbour_db, query: SELECT 1}",
        "{kind: postgres, auth: harbour_db, query: SELECT 1}",
    ),
    "auth wins over credential": (
        "{kind: postgres, credential: other, auth: harbour_db, query: SELECT 1}",
        "{kind: postgres, auth: harbour_db, query: SELECT 1}",
    ),
    "auth under spec wins over credential": (
        "{kind: postgres, credential: other, spec: {auth: harbour_db}, query: SELECT 1}",
        "{kind: postgres, spec: {auth: harbour_db}, query: SELECT 1}",
    ),
    "credential under spec": (
        "{kind: http, url: http://gauge.example, spec: {credential: gate}}",
        "{kind: http, url: http://gauge.example, auth: gate}",
    ),
    "timeout of a kind that has none": (
        "{kind: playbook, path: dock/unload, timeout: 900}",
        "{kind: playbook, path: dock/unload, spec: {timeout: 900}}",
    ),
    "timeout of http is its own": (
        "{kind: http, url: http://gauge.example, timeout_seconds: 2}",
        "{kind: http, url: http://gauge.example, timeout: 2}",
    ),
    "timeout_seconds of sqlite": (
        "{kind: sqlite, database: a.db, command: SELECT 1, timeout_seconds: 2}",
        "{kind: sqlite, database: a.db, command: SELECT 1, spec: {timeout: 2}}",
    ),
    "spec.timeout wins over timeout": (
        "{kind: python, code: pass, timeout: 3, timeout_seconds: 4, spec: {timeout: 2, memory_mb: 64}}",
        "{kind: python, code: pass, spec: {timeout: 2, memory_mb: 64}}",
    ),
    "spec.timeout wins over timeout_seconds of http": (
        "{kind: http, url: http://gauge.example, timeout_seconds: 2, spec: {timeout: 5}}",
        "{kind: http, url: http://gauge.example, spec: {timeout: 5}}",
    ),
    "spec.timeout_seconds": (
        "{kind: shell, command: make, spec: {timeout_seconds: 2}}",
        "{kind: shell, command: make, spec: {timeout: 2}}",
    ),
    "null is nothing that wins": (
        "{kind: postgres, credential: harbour_db, auth: null, query: SELECT 1, spec: null, timeout: 3}",
        "{kind: postgres, auth: harbour_db, query: SELECT 1, spec: {timeout: 3}}",
    ),
    "task of a call": (
        "{kind: playbook, path: dock/unload, task: unload}",
        "{kind: playbook, path: dock/unload}",
    ),
    "verify and redirects": (
        "{kind: http, url: http://gauge.example, verify_ssl: false, follow_redirects: false}",
        "{kind: http, url: http://gauge.example, verify: false, allow_redirects: false}",
    ),
    "cmds": ("{kind: shell, cmds: [make, make check]}", "{kind: shell, commands: [make, make check]}"),
    "output": (
        "{kind: noop, output: {output_select: [a], store: {kind: auto}, inline_max_bytes: 0}}",
        "{kind: noop, spec: {result: {select: [a], on_large: fetch, inline_bytes: 0}}}",
    ),
    "output under spec": (
        "{kind: noop, spec: {output: {output_select: [a], store: x}}, output: {scope: step}}",
        "{kind: noop, output: {scope: step, select: [a], on_large: fetch}}",
    ),
    "select wins over output_select and stays strict": (
        "{kind: noop, output: {output_select: [a], select: [b], inline: 5, inline_max_bytes: 0}}",
        "{kind: noop, output: {select: [b], inline: 5}}",
    ),
    "store alone": ("{kind: noop, output: {store: {kind: auto}}}", "{kind: noop}"),
    "size_threshold": (
        "{kind: http, url: http://gauge.example, output_select: {strategy: size_threshold, threshold_kb: "
        "100}}",
        "{kind: http, url: http://gauge.example, spec: {result: {inline_bytes: 102400}}}",
    ),
    "size_threshold is cut to what the log takes": (
        "{kind: noop, spec: {output_select: {strategy: size_threshold, threshold_kb: 5000}}}",
        "{kind: noop, spec: {result: {inline_bytes: 1048576}}}",
    ),
    "inline_bytes wins over size_threshold": (
        "{kind: noop, output_select: {strategy: size_threshold, threshold_kb: 5}, output: {inline: 7}}",
        "{kind: noop, output: {inline: 7}}",
    ),
    "result_ref": (
        '{kind: artifact, action: get, input: {result_ref: "{{ ctx.r }}", path: a.b}}',
        '{kind: artifact, action: get, ref: "{{ ctx.r }}", path: a.b}',
    ),
    "key among the inputs": (
        "{kind: artifact, action: put, data: 1, args: {key: a.json}, input: {x: 1}}",
        "{kind: artifact, action: put, data: 1, key: a.json, input: {x: 1}}",
    ),
    "inputs that the configuration reads stay inputs": (
        '{kind: artifact, action: get, key: "{{ path }}.json", input: {path: a, uri: b}}',
        '{kind: artifact, action: get, key: "{{ path }}.json", path: a, input: {path: a, uri: b}}',
    ),
    "kinds of transfer": (
        "{kind: transfer, source: {type: sqlite, database: a.db, table: a}, "
        "target: {type: postgres, credential: harbour_db, table: stops, mapping: {stop: id}}, "
        "chunk_size: 10}",
        "{kind: transfer, source: {kind: sqlite, database: a.db, table: a}, "
        "target: {kind: postgres, auth: harbour_db, table: stops}, columns: {stop: id}, chunk_rows: 10}",
    ),
    "columns win over mapping": (
        "{kind: transfer, mapping: {a: x, b: b}, columns: {a: a}, source: {kind: file, file: a.csv}, "
        "target: {kind: result}}",
        "{kind: transfer, columns: {a: a, b: b}, source: {kind: file, file: a.csv}, target: {kind: result}}",
    ),
    "kinds of transfer under spec": (
        "{kind: transfer, spec: {source: {type: file, file: a.csv}}, target: {kind: result}}",
        "{kind: transfer, spec: {source: {kind: file, file: a.csv}}, target: {kind: result}}",
    ),
}
FORMS = {
    "a mapping": "workflow: [{step: a, tool: TOOL}]",
    "an item of a list": "workflow: [{step: a, tool: [{kind: noop, name: n}, TOOL]}]",
    "a labelled item": "workflow: [{step: a, tool: [{n: TOOL}]}]",
    "a task of the workbook": "workbook: {w: TOOL}\nworkflow: [{step: a, tool: w}]",
    "a listed task of the workbook": "workbook: [{name: w, tool: TOOL}]\nworkflow: [{step: a, tool: "
    "{kind: workbook, task: w}}]",
    "a task of each": "workflow: [{step: a, tool: {kind: noop, repeat: {next: {when: false}, each: TOOL}}}]",
}
#: Documents as authors write them, and in the canonical form.
DOCUMENTS = {
    "a call of the workbook has the spellings of its kind": (
        "workbook: {w: {kind: http, url: http://a.example}}\n"
        "workflow: [{step: a, tool: {kind: workbook, task: w, credential: gate, timeout_seconds: 4}}]",
        "workbook: {w: {kind: http, url: http://a.example}}\n"
        "workflow: [{step: a, tool: {kind: workbook, task: w, auth: gate, timeout: 4}}]",
    ),
    "what the workbook reads of its caller stays an input": (
        'workbook: {w: {kind: artifact, action: get, key: "{{ key }}", spec: {input: {key: null}}}}\n'
        "workflow: [{step: a, tool: {kind: workbook, task: w, input: {key: b.json}}}]",
        'workbook: {w: {kind: artifact, action: get, key: "{{ key }}", input: {key: null}}}\n'
        "workflow: [{step: a, tool: {kind: workbook, task: w, input: {key: b.json}}}]",
    ),
    "the workbook leaves the key of an artifact to its caller": (
        "workbook: {w: {kind: artifact, action: get, input: {key: null}}}\n"
        "workflow: [{step: a, tool: {kind: workbook, task: w, input: {key: b.json}}}]",
        "workbook: {w: {kind: artifact, action: get, key: null}}\n"
        "workflow: [{step: a, tool: {kind: workbook, task: w, key: b.json}}]",
    ),
    "the cursor of a loop": (
        "workflow: [{step: a, loop: {iterator: r, cursor: {kind: postgres, credential: db, timeout: 4, "
        "claim: UPDATE t SET x = 1 WHERE x = 0 RETURNING id}}, tool: {kind: noop}}]",
        "workflow: [{step: a, loop: {iterator: r, cursor: {kind: postgres, auth: db, spec: {timeout: 4}, "
        "claim: UPDATE t SET x = 1 WHERE x = 0 RETURNING id}}, tool: {kind: noop}}]",
    ),
    "what has no effect": (
        "executor: {requires: {features: [x]}, spec: {policy: {results: {a: 1}, exec: local}}}\n"
        "workflow: [{step: a, spec: {policy: {admit: {mode: exclusive, rules: [{else: {allow: true}}]}}}, "
        "loop: {in: [1], iterator: n, spec: {policy: {exec: distributed, results: {preserve_order: true}}}}, "
        "tool: {kind: noop}}]",
        "workflow: [{step: a, spec: {policy: {admit: {rules: [{else: {allow: true}}]}}}, "
        "loop: {in: [1], iterator: n}, tool: {kind: noop}}]",
    ),
    "the deadline of the executor": (
        "executor: {spec: {policy: {defaults: {timeout_s: 30}}}}\nworkflow: [{step: a, tool: {kind: noop}}]",
        "executor: {spec: {timeout: 30}}\nworkflow: [{step: a, tool: {kind: noop}}]",
    ),
    "the timeout of the executor wins": (
        "executor: {spec: {timeout: 5, policy: {defaults: {timeout_s: 30}}}}\nworkflow: [{step: a, tool: "
        "{kind: noop}}]",
        "executor: {spec: {timeout: 5}}\nworkflow: [{step: a, tool: {kind: noop}}]",
    ),
    "the output of a step": (
        "workflow: [{step: a, tool: {kind: noop}, output: {output_select: [x], inline_max_bytes: 3, "
        "store: {kind: disk}}}]",
        "workflow: [{step: a, tool: {kind: noop}, spec: {result: {select: [x], inline_bytes: 3, "
        "on_large: fetch}}}]",
    ),
}


def differences(body: Compile, written: str, canonical: str) -> list[str]:
    """What is wrong with `written`, which is to mean `canonical` without a word."""
    found, wanted = body(written), body(canonical)
    if found.net is None or wanted.net is None or found.problems != ():
        return [str(problem) for problem in (*found.problems, *wanted.errors)]
    text = canonical_text(found.source)
    again = body(text.partition("metadata")[2].partition("\n")[2])
    faults = [] if same_net(found.net, wanted.net) else [f"it is {text}"]
    faults += [] if again.respelled == 0 and not again.source.origins else [f"migrate leaves {text}"]
    return faults + ([] if found.respelled else ["nothing was counted"])


@pytest.mark.full("5 s: every tool")
@pytest.mark.parametrize("form", FORMS)
def test_tools_mean_the_same_in_the_spellings_of_others(form: str, body: Compile) -> None:
    wrong = {
        name: faults
        for name, pair in TOOLS.items()
        if (faults := differences(body, *(FORMS[form].replace("TOOL", tool) for tool in pair)))
    }
    assert wrong == {}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_mean_the_same_in_the_spellings_of_others(name: str, body: Compile) -> None:
    assert differences(body, *DOCUMENTS[name]) == []


TOOL = "workflow: [{step: a, tool: TOOL}]"
#: What stays as it was → the codes, and a word of the first message.
OTHERS = {
    "another strategy": (
        TOOL.replace("TOOL", "{kind: noop, output_select: {strategy: biggest, threshold_kb: 1}}"),
        [Code.VALUE],
        "not one of size_threshold",
    ),
    "another key of a strategy": (
        TOOL.replace("TOOL", "{kind: noop, output_select: {strategy: size_threshold, treshold_kb: 1}}"),
        [Code.MISSPELT_KEY],
        "'treshold_kb'",
    ),
    "a threshold below zero": (
        TOOL.replace("TOOL", "{kind: noop, output_select: {threshold_kb: -1}}"),
        [Code.VALUE],
        "inline_bytes is -1024",
    ),
    "another mode of admission": (
        "workflow: [{step: a, spec: {policy: {admit: {mode: shared, rules: [{else: {allow: true}}]}}}, "
        "tool: {kind: noop}}]",
        [Code.UNKNOWN_KEY],
        "'mode'",
    ),
    "another place for iterations": (
        "workflow: [{step: a, loop: {in: [1], iterator: n, spec: {policy: {exec: moon}}}, tool: {kind: "
        "noop}}]",
        [Code.UNKNOWN_KEY],
        "'exec'",
    ),
    "another default": (
        "executor: {spec: {policy: {defaults: {timeout_s: 3, tries: 3}}}}\nworkflow: [{step: a, tool: "
        "{kind: noop}}]",
        [Code.UNKNOWN_KEY],
        "'defaults'",
    ),
    "another method of a source": (
        TOOL.replace(
            "TOOL",
            "{kind: transfer, source: {type: http, url: http://a.example, method: POST}, target: {type: "
            "result}}",
        ),
        [Code.VALUE],
        "'POST', not one of GET",
    ),
    "another type of a source": (
        TOOL.replace("TOOL", "{kind: transfer, source: {type: gopher, url: x}, target: {type: result}}"),
        [Code.VALUE],
        "'gopher'",
    ),
    "a deadline that is none": (
        TOOL.replace("TOOL", "{kind: python, code: pass, timeout: soon}"),
        [Code.VALUE],
        "timeout is 'soon'",
    ),
    "a deadline in parts": (
        TOOL.replace("TOOL", "{kind: python, code: pass, timeout: {read: 3}}"),
        [Code.VALUE],
        "without parts",
    ),
    "an artifact without a name": (
        TOOL.replace("TOOL", "{kind: artifact, action: get, input: {name: a}}"),
        [Code.VALUE],
        "needs one of",
    ),
    "a kind of error that there is not": (
        TOOL.replace("TOOL", "{kind: noop, retry: {retry_on: [time_out]}}"),
        [Code.VALUE, Code.DEPRECATED],
        "'time_out' is no kind of error",
    ),
    "what is no name of an error, below then": (
        TOOL.replace("TOOL", "{kind: noop, retry: [{when: 'true', then: {retry_on: {a: 1}}}]}"),
        [Code.VALUE, Code.UNKNOWN_KEY, Code.DEPRECATED],
        "cannot stand in retry_on",
    ),
    "what is no status, below then": (
        TOOL.replace("TOOL", "{kind: noop, retry: [{when: 'true', then: {retry_on_status: [soon]}}]}"),
        [Code.VALUE, Code.UNKNOWN_KEY, Code.DEPRECATED],
        "'soon' cannot stand in retry_on_status",
    ),
    "a credential of a kind without one": (
        TOOL.replace("TOOL", "{kind: shell, command: make, credential: a}"),
        [Code.UNKNOWN_KEY],
        "'credential'",
    ),
    "a pool": (
        TOOL.replace("TOOL", "{kind: postgres, auth: db, query: SELECT 1, pool: {min_size: 1, max_size: 4}}"),
        [Code.IGNORED],
        "connections are pooled for each worker and credential",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_other_meaning_is_reported_where_it_stands(name: str, body: Compile) -> None:
    text, codes, word = OTHERS[name]
    problems = body(text).problems
    assert sorted(problem.code for problem in problems) == sorted(codes), problems
    assert any(word in problem.message for problem in problems), problems


def test_notes_in_metadata_are_warned_of_only_where_they_are_nearly_a_key() -> None:
    text = (
        "metadata: {name: n, owner: harbour, ticket: 3, lables: {a: b}}\nworkflow: [{step: a, tool: "
        "{kind: noop}}]"
    )
    problems = compile_playbook(HEADER + text, file="sample.yaml", kinds=kinds()).problems
    assert [(problem.path, problem.hint) for problem in problems] == [
        ("metadata.lables", "did you mean 'labels'?")
    ]


def test_a_fault_in_what_was_moved_is_reported_where_it_was_written(body: Compile) -> None:
    text = (
        "workflow:\n- step: a\n  tool:\n    kind: python\n    spec:\n      input:\n        x: '{{ 1 | "
        "nope }}'\n    code: pass\n"
    )
    (problem,) = body(text).errors
    assert (problem.line, problem.path) == (10, "workflow[0].tool.spec.input.x")
