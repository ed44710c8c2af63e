"""Values that a tool cannot take are told where they stand; what is rendered, and whatever hangs on
it, is let through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import model_validator

from noetl.dsl import Code, Problem, compile_playbook
from noetl.net.model import KindInfo
from noetl.tools.kit.declaration import faults
from noetl.tools.kit.registry import kinds
from noetl.tools.noop import Noop, NoopConfig

Found = Callable[[str], tuple[Problem, ...]]

_HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: sample}\nworkload: {x: 1}\n"


def _compiled(text: str, known: Mapping[str, KindInfo]) -> tuple[Problem, ...]:
    return compile_playbook(_HEADER + text, file="sample.yaml", kinds=known).problems


@pytest.fixture
def of_tool() -> Found:
    """The problems of a step with this tool; it stands in line 6."""
    return lambda tool: _compiled(f"workflow:\n- tool: {tool}\n  step: a", kinds())


#: (tool, code, column, path below the tool, a word of the message)
FAULTS = [
    ("{kind: shell, command: [ls]}", Code.VALUE, 23, ".command", "a list of words is `argv`"),
    ("{kind: shell, command: 7}", Code.TYPE, 32, ".command", "must be text, not a number"),
    ("{kind: shell, commands: [ls, {a: 1}]}", Code.TYPE, 38, ".commands[1]", "not a mapping"),
    ("{kind: shell, argv: [1, '{{ x }}']}", Code.TYPE, 30, ".argv[0]", "must be text, not a number"),
    ("{kind: shell, command: a, argv: [a]}", Code.VALUE, 3, "", "only one of command and argv"),
    ("{kind: http, url: /, method: 'G T'}", Code.TYPE, 38, ".method", "must be text that matches"),
    ("{kind: http, url: /, timeout: soon}", Code.TYPE, 39, ".timeout", "must be a duration (30, 500ms"),
    ("{kind: http, url: /, timeout: {conect: 1}}", Code.VALUE, 40, ".timeout.conect", "means nothing here"),
    # Whatever the template becomes, the mapping has a key that nothing reads.
    (
        "{kind: http, url: /, timeout: {connect: '{{ x }}', conect: 1}}",
        Code.VALUE,
        60,
        ".timeout.conect",
        "means nothing here",
    ),
    ("{kind: http, url: /, timeout: {read: -1}}", Code.TYPE, 46, ".timeout.read", "be greater than 0"),
    ("{kind: http, url: /, as: jsn}", Code.VALUE, 34, ".as", "not one of json"),
    ("{kind: playbook, payload: {a: 1}}", Code.MISSING, 3, "", "playbook needs path"),
    ("{kind: http, spec: {allow_redirects: 5}, url: /}", Code.TYPE, 46, ".spec.allow_redirects", "true or"),
    ("{kind: postgres, auth: a, command: '{{', params: 1}", Code.TYPE, 58, ".params", "a mapping or a list"),
    (
        "{kind: quantum, builder: {name: gzh}}",
        Code.VALUE,
        41,
        ".builder.name",
        "is 'gzh', not one of ghz, qft,",
    ),
    ("{kind: quantum, builder: {qubits: 2}}", Code.MISSING, 25, ".builder", "quantum needs 'name' here"),
    ("{kind: quantum, builder: {name: ghz}}", Code.MISSING, 25, ".builder", "quantum needs 'qubits' here"),
    (
        "{kind: quantum, qasm: a, noise: {depolarise: '{{ workload.x }}'}}",
        Code.VALUE,
        42,
        ".noise.depolarise",
        "'depolarise' means nothing here",
    ),
]


@pytest.mark.parametrize(("tool", "code", "column", "path", "word"), FAULTS, ids=[one[0] for one in FAULTS])
def test_a_value_that_the_tool_cannot_take_is_reported_where_it_stands(
    of_tool: Found, tool: str, code: Code, column: int, path: str, word: str
) -> None:
    (found,) = of_tool(tool)
    assert (found.code, found.severity, found.line, found.column) == (code, "error", 6, column)
    assert found.path == f"workflow[0].tool{path}"
    assert word in found.message


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: shell, command: '{{ x }}', argv: '{{ x }}'}",
        "{kind: shell, argv: '{{ x }}', env: {A: '{{ x }}'}}",
        "{kind: http, url: '{{ x }}', method: '{{ x }}', allow_redirects: '{{ x }}', as: '{{ x }}'}",
        "{kind: http, url: /, timeout: '5'}",
        "{kind: postgres, auth: a, command: select 1, transaction: 'yes'}",
    ],
)
def test_what_is_rendered_or_can_be_converted_is_no_problem(of_tool: Found, tool: str) -> None:
    assert of_tool(tool) == ()


def test_a_value_of_the_wrong_type_is_not_repeated_as_it_may_be_a_secret(of_tool: Found) -> None:
    (found,) = of_tool("{kind: http, url: /, proxy: 5551234}")
    assert "5551234" not in f"{found.message} {found.hint}"


def test_code_is_no_template_so_braces_in_it_hide_nothing(of_tool: Found) -> None:
    found = of_tool("{kind: python, code: ['{{ x }}']}")
    assert [(one.code, one.path) for one in found] == [(Code.TYPE, "workflow[0].tool.code")]


def test_a_task_of_the_workbook_is_asked_with_what_its_caller_says() -> None:
    book = "workbook: {get: {kind: http, url: /, timeout: soon, as: null, method: G T}}\n"
    step = "workflow:\n- {step: a, tool: {kind: workbook, name: get, method: PUT, as: jsn}}"
    found = _compiled(book + step, kinds())
    assert [(one.code, one.path) for one in found] == [
        (Code.TYPE, "workbook.get.timeout"),
        (Code.VALUE, "workflow[0].tool.as"),
    ]


class _Broken(NoopConfig):
    @model_validator(mode="before")
    @classmethod
    def _fail(cls, value: Any) -> Any:
        raise ZeroDivisionError(str(value))


class _Foreign(Noop):
    config_model = _Broken


def test_a_foreign_tool_whose_check_breaks_has_no_faults_until_it_runs() -> None:
    assert faults(_Foreign.declaration, {}) == ()
