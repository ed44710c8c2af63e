"""Names that authors from elsewhere read: each means what the canonical form says, in what runs and
in what is migrated."""

from __future__ import annotations

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.dsl.read.canonical_text import canonical_text
from noetl.net.codec import same_net
from noetl.tools.kit.registry import kinds

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: sample}\n"


def compiled(text: str) -> Compiled:
    return compile_playbook(HEADER + text, file="sample.yaml", kinds=kinds())


RULES = "workflow: [{step: a, tool: {kind: noop, spec: {policy: {rules: [RULE]}}}}]"
STEP = "workflow: [{step: a, BODY}]"
#: A document as authors write it, in the canonical form, and the codes of what is warned of.
DOCUMENTS: dict[str, tuple[str, str, list[Code]]] = {
    "the response in rules": (
        RULES.replace(
            "RULE",
            "{when: output.response.n > 1, then: {do: fail}}, "
            "{else: {do: continue, set: {ctx.n: \"{{ outcome['response'].n + output.response['m'] }}\"}}}",
        ),
        RULES.replace(
            "RULE",
            "{when: output.data.n > 1, then: {do: fail}}, "
            "{else: {do: continue, set: {ctx.n: \"{{ outcome.data.n + output.data['m'] }}\"}}}",
        ),
        [],
    ),
    "declared inputs by the name of their list": (
        "inputs: [{id: n, type: INT}, {name: m, default: '{{ inputs.n }}'}]\nctx: {k: '{{ inputs.n }}'}\n"
        "workflow: [{step: a, tool: {kind: noop, input: {x: '{{ inputs.n + inputs[\"m\"] }}', y: '{{ inputs.k }}'}}, "
        "next: [{step: b, when: 'inputs.n > 1'}]}, {step: b, tool: {kind: python, code: 'result = \"{{ inputs.n }}\"'}}]",
        "inputs: [{name: n, type: integer}, {name: m, default: '{{ workload.n }}'}]\nctx: {k: '{{ workload.n }}'}\n"
        "workflow: [{step: a, tool: {kind: noop, input: {x: '{{ workload.n + workload.m }}', y: '{{ inputs.k }}'}}, "
        "next: [{step: b, when: 'workload.n > 1'}]}, {step: b, tool: {kind: python, code: 'result = \"{{ inputs.n }}\"'}}]",
        [],
    ),
    "the response at the end of a step, and at its arcs": (
        'workflow: [{step: a, tool: {kind: noop}, set: {ctx.n: "{{ output.response.n }}"}, '
        'next: [{step: b, when: "{{ outcome.response.n == 1 }}", args: {m: "{{ output.response }}"}}]}, '
        "{step: b, tool: {kind: noop}}]",
        'workflow: [{step: a, tool: {kind: noop}, set: {ctx.n: "{{ output.data.n }}"}, '
        'next: [{step: b, when: "{{ outcome.data.n == 1 }}", args: {m: "{{ output.data }}"}}]}, {step: '
        "b, tool: {kind: noop}}]",
        [],
    ),
    "the response in rules of a step, of the executor and of the workbook": (
        "executor: {spec: {policy: {rules: [{when: '{{ output.response }}', then: {do: fail}}, {else: "
        "{do: continue}}]}}}\n"
        "workbook: {w: {kind: noop, spec: {policy: {rules: [{else: {set: {x: '{{ output.response "
        "}}'}}}]}}}}\n"
        "workflow: [{step: a, tool: w}]",
        "executor: {spec: {policy: {rules: [{when: '{{ output.data }}', then: {do: fail}}, {else: {do: "
        "continue}}]}}}\n"
        "workbook: {w: {kind: noop, spec: {policy: {rules: [{else: {set: {x: '{{ output.data }}'}}}]}}}}\n"
        "workflow: [{step: a, tool: w}]",
        [],
    ),
    "in the set of a task output is the result itself": (
        STEP.replace("BODY", "tool: {kind: noop, set: {x: '{{ output.response }}{{ outcome.response.n }}'}}"),
        STEP.replace("BODY", "tool: {kind: noop, set: {x: '{{ output.response }}{{ outcome.data.n }}'}}"),
        [],
    ),
    "inputs of the workload": (
        "workload: {berth: \"{{ input.berth | default('A1') }}\", all: '{{ dict(input=args.n) }}', deep: "
        "{x: ['{{ args }}']}}\n"
        "workflow: [{step: a, tool: {kind: noop, input: {x: '{{ args.y }}'}}, input: {y: 1}}]",
        "workload: {berth: \"{{ payload.berth | default('A1') }}\", all: '{{ dict(input=payload.n) }}', "
        "deep: {x: ['{{ payload }}']}}\n"
        "workflow: [{step: a, tool: {kind: noop, input: {x: '{{ args.y }}'}}, input: {y: 1}}]",
        [],
    ),
    "iter in a step without a loop": (
        "workflow: [{step: a, tool: [{name: b, kind: noop, set: {iter.n: 1}}, {name: c, kind: noop, "
        'input: {n: "{{ iter.n }}"}, '
        'spec: {policy: {rules: [{when: iter.n < 3, then: {do: jump, to: c, set: {iter.n: "{{ iter.n + 1 '
        '}}"}}}, '
        "{when: \"{{ output.status == 'error' }}\", then: {do: fail}}]}}}], "
        'set: {ctx.n: "{{ iter.n }}"}, next: [{step: d, args: {n: "{{ iter.n }}", p: "{{ [iter.parent, '
        'iter.n] }}"}}]}, {step: d, tool: {kind: noop}}]',
        "workflow: [{step: a, tool: [{name: b, kind: noop, set: {step.n: 1}}, {name: c, kind: noop, "
        'input: {n: "{{ step.n }}"}, '
        'spec: {policy: {rules: [{when: step.n < 3, then: {do: jump, to: c, set: {step.n: "{{ step.n + 1 '
        '}}"}}}, '
        "{when: \"{{ output.status == 'error' }}\", then: {do: fail}}]}}}], "
        'set: {ctx.n: "{{ step.n }}"}, next: [{step: d, args: {n: "{{ step.n }}", p: "{{ [iter.parent, '
        'step.n] }}"}}]}, {step: d, tool: {kind: noop}}]',
        [Code.OUTSIDE_OF_LOOP],
    ),
    "iter in a task of the workbook": (
        "workbook: {w: {kind: noop, set: {iter.n: 1}}}\nworkflow: [{step: a, tool: [w, {kind: noop, "
        "name: v, input: {n: '{{ iter.n }}'}}]}]",
        "workbook: {w: {kind: noop, set: {step.n: 1}}}\nworkflow: [{step: a, tool: [w, {kind: noop, "
        "name: v, input: {n: '{{ step.n }}'}}]}]",
        [Code.OUTSIDE_OF_LOOP],
    ),
    "the step's own name in its rules and in the set of its task": (
        "workflow: [{step: weigh, tool: {kind: noop, set: {k: '{{ weigh.kilos }}'}, spec: {policy: {rules: "
        "[{when: weigh.kilos > 3, then: {do: continue, set: {ctx.total: '{{ weigh.kilos + (ctx.total or "
        "0) }}'}}}, {else: {do: fail}}]}}}}]",
        "workflow: [{step: weigh, tool: {kind: noop, set: {k: '{{ output.kilos }}'}, spec: {policy: {rules: "
        "[{when: output.data.kilos > 3, then: {do: continue, set: {ctx.total: '{{ output.data.kilos + "
        "(ctx.total or 0) }}'}}}, {else: {do: fail}}]}}}}]",
        [Code.UNNAMED_RESULT],
    ),
    "a bare result of the step before": (
        "workflow: [{step: a, tool: {kind: noop}, next: b}, {step: b, tool: {kind: noop, input: {k: '{{ "
        "result.k }}'}}}]",
        "workflow: [{step: a, tool: {kind: noop}, next: {step: b, args: {result: '{{ result }}'}}}, "
        "{step: b, tool: {kind: noop, input: {k: '{{ result.k }}'}}}]",
        [Code.UNNAMED_RESULT],
    ),
    "a bare response in the input and the loop of a step, over all forms of arcs": (
        "workflow: [{step: a, tool: {kind: noop}, next: [{step: b, args: {x: 1}}, c]}, "
        "{step: b, tool: {kind: noop}, next: {arcs: [[{step: c, when: '{{ true }}'}], b]}}, "
        "{step: c, input: {n: '{{ response.n }}'}, loop: {in: '{{ result }}', iterator: i}, tool: {kind: "
        "noop}}]",
        "workflow: [{step: a, tool: {kind: noop}, next: [{step: b, args: {x: 1}}, {step: c, args: "
        "{response: '{{ response }}', result: '{{ result }}'}}]}, "
        "{step: b, tool: {kind: noop}, next: {arcs: [[{step: c, when: '{{ true }}', args: {response: '{{ "
        "response }}', result: '{{ result }}'}}], b]}}, "
        "{step: c, input: {n: '{{ response.n }}'}, loop: {in: '{{ result }}', iterator: i}, tool: {kind: "
        "noop}}]",
        [Code.UNNAMED_RESULT],
    ),
    "a bare result of the task before": (
        STEP.replace(
            "BODY", "tool: [{kind: noop, name: b}, {kind: noop, name: c, input: {k: '{{ result.k }}'}}]"
        ),
        STEP.replace(
            "BODY", "tool: [{kind: noop, name: b}, {kind: noop, name: c, input: {k: '{{ _prev.k }}'}}]"
        ),
        [Code.UNNAMED_RESULT],
    ),
    "the result in how the task before ended": (
        STEP.replace(
            "BODY",
            "tool: [{kind: noop, name: b}, {kind: noop, name: c, input: {k: '{{ output.data.k + "
            "outcome.result.n }}'}}]",
        ),
        STEP.replace(
            "BODY",
            "tool: [{kind: noop, name: b}, {kind: noop, name: c, input: {k: '{{ _prev.k + _prev.n }}'}}]",
        ),
        [Code.UNNAMED_RESULT],
    ),
    "a bare result in what several steps call": (
        "workbook: {w: {kind: noop, input: {k: '{{ result.k }}'}}}\n"
        "workflow: [{step: a, tool: {kind: noop}, next: b}, {step: b, tool: w, next: c}, {step: c, tool: w}]",
        "workbook: {w: {kind: noop, input: {k: '{{ result.k }}'}}}\n"
        "workflow: [{step: a, tool: {kind: noop}, next: {step: b, args: {result: '{{ result }}'}}}, "
        "{step: b, tool: w, next: {step: c, args: {result: '{{ result }}'}}}, {step: c, tool: w}]",
        [Code.UNNAMED_RESULT],
    ),
    "a bare result in what several steps call behind other tasks": (
        "workbook: {w: {kind: noop, input: {k: '{{ result.k }}'}}}\n"
        "workflow: [{step: a, tool: [{kind: noop}, w], next: b}, {step: b, tool: [{kind: noop}, w]}]",
        "workbook: {w: {kind: noop, input: {k: '{{ _prev.k }}'}}}\n"
        "workflow: [{step: a, tool: [{kind: noop}, w], next: b}, {step: b, tool: [{kind: noop}, w]}]",
        [Code.UNNAMED_RESULT],
    ),
    "whose an entry of the keychain is": (
        "keychain: [{name: a, kind: credential, credential: x, scope: global}, {name: b, kind: oauth2, "
        "auth: y, scope: global}]\n"
        "workflow: [{step: a, tool: {kind: noop}}]",
        "keychain: [{name: a, kind: credential, credential: x}, {name: b, kind: oauth2, auth: y}]\n"
        "workflow: [{step: a, tool: {kind: noop}}]",
        [],
    ),
    "whose an entry of a keychain in the mapping form is": (
        "keychain: {a: {provider: vault, path: kv/x, scope: global}}\nworkflow: [{step: a, tool: {kind: "
        "noop}}]",
        "keychain: {a: {provider: vault, path: kv/x}}\nworkflow: [{step: a, tool: {kind: noop}}]",
        [],
    ),
    "an end to which no arc leads": (
        "workflow: [{step: a, tool: {kind: noop}}, {step: end, tool: {kind: noop}}]",
        "workflow: [{step: a, tool: {kind: noop}, next: end}, {step: end, tool: {kind: noop}}]",
        [Code.UNREACHABLE],
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_name_means_the_same_in_the_words_of_others(name: str) -> None:
    text, canonical, codes = DOCUMENTS[name]
    found, wanted = compiled(text), compiled(canonical)
    assert {problem.code for problem in found.problems} - {p.code for p in wanted.problems} == set(codes)
    assert all("write " in problem.hint for problem in found.problems if problem.code in codes)
    assert found.net is not None, found.problems
    assert wanted.net is not None, wanted.problems
    written = canonical_text(found.source)
    assert same_net(found.net, wanted.net), written
    again = compile_playbook(written, file="sample.yaml", kinds=kinds())
    assert (again.respelled, {problem.code for problem in again.problems} & set(codes)) == (0, set())
    assert found.respelled > 0 or codes == [Code.UNREACHABLE]


STAYS = {
    "a value of the workload that is called input": (
        "workload: {input: {berth: 1}, x: '{{ input.berth }}'}\nworkflow: [{step: a, tool: {kind: noop}}]",
        [Code.BUILT_IN],
    ),
    "iter at arcs": (
        "workflow: [{step: a, tool: {kind: noop}, next: [{step: b, set: {iter.n: 1}}]}, {step: b, tool: "
        "{kind: noop}}]",
        [Code.SCOPE],
    ),
    "iter.index": (
        STEP.replace("BODY", "tool: {kind: noop, set: {iter.n: 1}, input: {i: '{{ iter.index }}'}}"),
        [Code.OUTSIDE_OF_LOOP, Code.OUTSIDE_OF_LOOP],
    ),
    "iter in a loop": (
        STEP.replace(
            "BODY", "loop: {in: [1], iterator: i}, tool: {kind: noop, set: {iter.n: '{{ iter.i }}'}}"
        ),
        [],
    ),
    "the step's name where another task reads it": (
        "workflow: [{step: a, tool: [{name: b, kind: noop}, {name: c, kind: noop, set: {x: '{{ a.n }}'}}]}]",
        [],
    ),
    "the step's name where an input has it": (
        "workflow: [{step: a, tool: {kind: noop, input: {a: 1}, set: {x: '{{ a }}'}}}]",
        [],
    ),
    "a result at the entry": (
        STEP.replace("BODY", "tool: {kind: noop, input: {k: '{{ result.k }}'}}"),
        [Code.UNDEFINED],
    ),
    "a result that something else is called": (
        "workload: {result: 1}\nworkflow: [{step: a, tool: [{kind: noop, name: t}, {kind: noop, name: u, "
        "input: {k: '{{ result }}'}}], next: b}, "
        "{step: b, tool: {kind: noop, input: {k: '{{ result }}'}}}]",
        [],
    ),
    "a result that an input is called": (
        "workflow: [{step: a, tool: {kind: noop}, next: b}, {step: b, input: {result: 1}, tool: {kind: "
        "http, url: '{{ result }}'}}]",
        [],
    ),
    "a result that an arc hands over already": (
        "workflow: [{step: a, tool: {kind: noop}, next: [{step: b, args: {result: 1}}]}, {step: b, tool: "
        "{kind: http, url: '{{ result }}'}}]",
        [],
    ),
    "a result in code, which is handed over as written": (
        "workflow: [{step: a, tool: {kind: noop}, next: b}, {step: b, tool: {kind: python, code: 'result "
        '= "{{ result.k }}"\'}}]',
        [Code.TEMPLATE_IN_CODE],
    ),
    "an end that is the final step": (
        "executor: {spec: {final_step: end}}\nworkflow: [{step: a, tool: {kind: noop}}, {step: end, "
        "tool: {kind: noop}}]",
        [],
    ),
    "another scope of an entry": (
        "keychain: [{name: a, credential: x, scope: moon}]\nworkflow: [{step: a, tool: {kind: noop}}]",
        [Code.UNKNOWN_KEY],
    ),
    "an end that is the entry": ("workflow: [{step: end, tool: {kind: noop}}]", []),
    "the step's name in its input, which is of its last run": (
        "workflow: [{step: a, tool: {kind: noop, input: {n: '{{ a.n }}'}}}]",
        [],
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_means_something_else_stays(name: str) -> None:
    text, codes = STAYS[name]
    assert [problem.code for problem in compiled(text).problems] == codes


@pytest.mark.parametrize(
    "said",
    [
        "workflow: [{step: a, tool: {kind: noop, input: {inputs: {n: 1}, x: '{{ inputs.n }}'}}}]",
        "workload: {inputs: {n: 1}}\nworkflow: [{step: a, tool: {kind: noop, input: {x: '{{ inputs.n }}'}}}]",
        "workflow: [{step: inputs, tool: {kind: noop}, next: b}, {step: b, tool: {kind: noop, input: {x: '{{ inputs.n }}'}}}]",
    ],
)
def test_what_is_called_inputs_itself_is_meant_by_that_name(said: str) -> None:
    found = compiled(f"inputs: {{n: integer}}\n{said}")
    assert found.respelled == 0
    assert "{{ inputs.n }}" in str(found.net)


@pytest.mark.parametrize("name", ["a", "{% for a in x %}", "{old} {0} {"])
def test_a_warning_of_a_name_says_the_step_as_it_is_called(name: str) -> None:
    rules = "{else: {do: continue, set: {iter.n: 1}}}"
    text = f'workflow: [{{step: "{name}", tool: {{kind: noop, spec: {{policy: {{rules: [{rules}]}}}}}}}}]'
    messages = {one.code: one.message for one in compiled(text).problems}
    assert messages[Code.OUTSIDE_OF_LOOP] == f"step '{name}' has no loop: iter.n is step.n here"


def test_a_result_that_is_named_after_its_step_is_said_to_be_the_one_that_is_judged() -> None:
    found = compiled("workflow: [{step: b, tool: {kind: noop, set: {x: '{{ b.rows }}'}}}]").problems
    said = [one.message for one in found if one.code is Code.UNNAMED_RESULT]
    assert said == ["step 'b' has not ended here: b.rows is output.rows, the result that is judged"]
