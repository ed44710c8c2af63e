"""What the program has, the documentation names: settings, events, commands, tools, keys, layers,
routes."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import Field, fields
from datetime import UTC, datetime
from importlib import import_module
from runpy import run_path
from typing import Any, get_args

import click
import pytest
from celery.app.defaults import SETTING_KEYS
from pages import ROOT, keys, language, page, rows, sections

from noetl import dsl
from noetl.api.app import create_app
from noetl.cli.main import COMMANDS
from noetl.config import PREFIX, Settings
from noetl.dispatch.deployer import base
from noetl.dispatch.guarantees import GUARANTEES, contradictions, visibility
from noetl.dsl.explain.lessons import lessons, problems, whole
from noetl.exports import clickhouse
from noetl.expressions.vocabulary import FILTERS, TESTS
from noetl.facts.event_names import ALIASES
from noetl.facts.events import Draft, Event, Fact, Paused
from noetl.facts.outcome import ErrorInfo
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.shape import as_json
from noetl.forecast.tasks import Kinds
from noetl.projection.rows import ColumnType
from noetl.projection.tables import TABLES
from noetl.store.schema.executions import event as event_table
from noetl.testing import Simulation
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.manual import manual_of
from noetl.tools.kit.registry import kinds, load, touches
from noetl.usecases.views import envelope

# --- settings ------------------------------------------------------------------------------------


def shown(setting: Field[Any]) -> str:
    match setting.default:
        case bool() as flag:
            return str(flag).lower()
        case () | "" | None:
            return "-"
        case value:
            return str(value)


def test_operations_lists_every_setting_with_its_default(subtests: pytest.Subtests) -> None:
    for setting in fields(Settings):
        with subtests.test(setting.name):
            listed = {
                cells[0].strip("`"): cells for cells in rows(sections("docs/operations.md")["Settings"])
            }
            name, default, meaning = listed[PREFIX + setting.name.upper()]
            assert default.strip("`") == shown(setting), name
            assert meaning


def test_operations_lists_no_setting_that_there_is_not() -> None:
    known = {PREFIX + one.name.upper() for one in fields(Settings)}
    assert set(keys(sections("docs/operations.md")["Settings"])) == known


def test_operations_lists_the_settings_of_celery_that_keep_a_promise() -> None:
    listed = rows(sections("docs/operations.md")["What has to be"])
    *exact, (name, needs, keeps) = [tuple(cells) for cells in listed]
    assert exact == [(f"`{one.name}`", f"`{one.needs}`", one.keeps) for one in GUARANTEES]
    assert (name, keeps) == (f"`{visibility(0).name}`", visibility(0).keeps)
    assert "NOETL_TASK_TIMEOUT_S" in needs


def test_operations_names_every_setting_that_noetl_gives_to_celery() -> None:
    found = sections("docs/operations.md")
    text = found["What has to be"] + found["What may be changed"]
    assert {name for name in base(0.0) if f"`{name}" not in text} == set()
    assert set(base(0.0)) <= SETTING_KEYS
    assert set(re.findall(r"`((?:task|worker|broker|result|event|enable)_\w+)", text)) <= SETTING_KEYS


def test_what_noetl_gives_to_celery_keeps_every_promise() -> None:
    assert [*contradictions(base(3600.0), 3600.0), *contradictions(base(1e7), 1e7)] == []
    assert {one.setting for one in GUARANTEES} <= SETTING_KEYS


# --- events --------------------------------------------------------------------------------------


def test_events_lists_every_type_with_its_fields(subtests: pytest.Subtests) -> None:
    for fact in get_args(Fact):
        with subtests.test(fact.type):
            text = sections("docs/events.md")[fact.type]
            assert keys(text) == [one.name for one in fields(fact)]
            assert all(meaning for _, meaning in rows(text))
            assert fields(fact) or "No fields." in text


def test_events_lists_no_type_that_there_is_not() -> None:
    named = {title for title in sections("docs/events.md") if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", title)}
    assert named == {fact.type for fact in get_args(Fact)}


def test_events_lists_the_columns_of_the_log() -> None:
    columns = [column.name for column in event_table.columns]
    assert keys(sections("docs/events.md")["The envelope"]) == ["event_id", *columns]


def test_what_is_shown_of_an_event_are_the_listed_columns_but_the_entity() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    visible = envelope(Event("1", 1, now, Draft(Paused())))
    listed = keys(sections("docs/events.md")["The envelope"])
    assert set(visible) == set(listed) - {"entity_type", "entity_id", "parent_id"}


def test_events_lists_the_older_names() -> None:
    table = rows(sections("docs/events.md")["Older names"])
    assert {old.strip("`"): tuple(re.findall(r"`(.+?)`", new)) for old, new in table} == ALIASES


def test_events_lists_the_fields_of_errors() -> None:
    text = sections("docs/events.md")["The envelope"]
    listed = re.search(r"An \*\*error\*\* is `\{(.*?)\}`", text, re.DOTALL)
    assert listed is not None
    assert set(re.split(r",\s+", listed[1])) == {one.name for one in fields(ErrorInfo)}


# --- tables --------------------------------------------------------------------------------------


def test_tables_lists_every_table_with_its_columns(subtests: pytest.Subtests) -> None:
    for table in TABLES.values():
        with subtests.test(table.name):
            text = sections("docs/tables.md")[table.name]
            key = ", ".join(f"`{name}`" for name in table.key)
            assert f"{table.meaning} Key: {key}." in text
            assert rows(text) == [
                [f"`{one.name}`", f"{one.type}{'*' if one.required else ''}", one.meaning]
                for one in table.columns
            ]


def test_tables_lists_no_table_that_there_is_not_and_the_words_of_every_type() -> None:
    assert set(sections("docs/tables.md")) == {"", "Tables", *TABLES}
    words = {cells[0].strip("`"): cells[1:] for cells in rows(sections("docs/tables.md")["Tables"])}
    assert set(words) == set(get_args(ColumnType)) == set(clickhouse.TYPES)
    assert all(clickhouse.TYPES[name] in cells for name, cells in words.items())  # type: ignore[index]


# --- commands ------------------------------------------------------------------------------------


def commands() -> dict[str, click.Command]:
    """`catalog list` → its command, groups included."""
    found: dict[str, click.Command] = {}
    for name, (place, _) in COMMANDS.items():
        module, attribute = place.split(":")
        command = getattr(import_module(module), attribute)
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    return found


def test_cli_lists_every_command_with_its_options_and_its_example(subtests: pytest.Subtests) -> None:
    for name, command in commands().items():
        with subtests.test(name):
            text = sections("docs/cli.md")[f"noetl {name}"]
            assert f"    noetl {name}" in text
            options = [one for one in command.params if isinstance(one, click.Option)]
            for option in options:
                for spelling in (*option.opts, *option.secondary_opts):
                    assert re.search(rf"(?<![\w-]){re.escape(spelling)}(?![\w-])", text), spelling
            spelled = {spelling for one in options for spelling in (*one.opts, *one.secondary_opts)}
            named = {
                word for cell in keys(text) for word in re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", cell)
            }
            assert named == spelled
            for argument in command.params:
                if isinstance(argument, click.Argument):
                    wanted = "FILE" if argument.name in ("file", "files") else (argument.name or "").upper()
                    assert wanted in text.partition("\n\n")[2].partition("\n\n")[0] or f" {wanted}" in text
            assert command.epilog is not None
            assert command.epilog.startswith("Example: noetl ")
            assert command.epilog.removeprefix("Example: ") in text


def test_cli_lists_no_command_that_there_is_not() -> None:
    named = {title for title in sections("docs/cli.md") if title.startswith("noetl ")}
    assert named == {f"noetl {name}" for name in commands()}


def test_the_readme_names_every_command() -> None:
    text = page("README.md")
    assert [name for name in COMMANDS if f"`noetl {name}" not in text and f"`{name}`" not in text] == []


# --- routes --------------------------------------------------------------------------------------


def as_documented(rule: str) -> str:
    """`/api/vars/<name>` as `/api/vars/{name}`."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)


def test_api_lists_every_route() -> None:
    simulation = Simulation(
        "{apiVersion: noetl.io/v2, kind: Playbook, metadata: {path: x}, workflow: [{step: start}]}"
    )
    app = create_app(simulation.rt, Settings())
    served = {
        f"{method} {as_documented(rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    listed = keys(sections("docs/api.md")["Routes"])
    assert len(listed) == len(set(listed))
    assert set(listed) == served - {"GET /api/openapi.json"}
    assert "/api/openapi.json" in page("docs/api.md")


# --- tools ---------------------------------------------------------------------------------------


def generated() -> dict[str, str]:
    """What `make docs` would write."""
    pages: dict[str, str] = run_path(str(ROOT / "docs/generate.py"))["pages"]()
    return pages


def test_the_pages_that_the_program_makes_are_up_to_date() -> None:
    folder = ROOT / "docs"
    made = [folder / name for name in ("diagnostics.md", "keys.md", "patterns.md")]
    files = [*made, *(folder / "tools").glob("*")]
    written = {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in files}
    assert written == generated(), "run `make docs`"


def test_the_page_of_benchmarks_is_made_of_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is installed is NoETL alone.
    monkeypatch.syspath_prepend(ROOT)
    report = import_module("benchmarks.report")
    latest = json.loads((report.RESULTS / "latest.json").read_text(encoding="utf-8"))
    written = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    assert written == report.page(latest), "run `python -m benchmarks.report`"


def test_every_tool_says_all_of_itself(subtests: pytest.Subtests) -> None:
    for kind in kinds():
        with subtests.test(kind):
            manual = manual_of(load(kind))
            assert [key.name for key in manual.keys if not key.description.endswith(".")] == []
            assert manual.about != manual.description
            assert manual.result
            assert manual.example


# --- the language --------------------------------------------------------------------------------


def test_every_code_has_its_meaning_and_its_section() -> None:
    listed = rows(sections("docs/diagnostics.md")["Diagnostics"])
    assert [(code, meaning) for code, _, meaning in listed] == [
        (f"[`{code}`](#{code.lower()})", meaning) for code, meaning in dsl.MEANING.items()
    ]
    assert list(dsl.MEANING) == list(dsl.Code)
    titles = [title for title in sections("docs/diagnostics.md") if title.startswith("NOETL")]
    assert titles == list(dsl.Code)


def examples_of(code: str) -> tuple[str, str]:
    """The bad and the good example, as the page shows them."""
    text = sections("docs/diagnostics.md")[code]
    bad = re.search(r"^```yaml bad\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    good = re.search(r"^```yaml\n(.*?)^```$", text + "\n", re.MULTILINE | re.DOTALL)
    assert bad is not None
    assert good is not None
    return bad[1], good[1]


def test_the_bad_example_of_a_code_yields_it_where_it_says_and_the_good_one_nothing(
    subtests: pytest.Subtests,
) -> None:
    for code in dsl.Code:
        with subtests.test(code.name):
            lesson = lessons()[code]
            found, _ = problems(lesson.bad, kinds())
            assert {problem.code for problem in found} == {code}
            text = whole(lesson.bad)
            text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            before = text[: text.index(lesson.at)]
            assert (found[0].line, found[0].column) == (
                before.count("\n") + 1,
                len(before.rpartition("\n")[2]) + 1,
            )
            bad, good = examples_of(code)
            assert problems(good, kinds())[0] == ()
            if bad == lesson.bad:
                assert problems(bad, kinds())[0] == found
            else:
                assert code in SHORTENED


#: Examples that the page cannot show as they are: too long, or with characters that cannot be seen.
SHORTENED = {dsl.Code.ENCODING, dsl.Code.CHARACTER, dsl.Code.TOO_LARGE, dsl.Code.TOO_DEEP}
SHORTENED |= {dsl.Code.TOO_MANY_NODES, dsl.Code.TOO_MANY_STEPS}


@pytest.mark.parametrize(("label", "words"), [("Filters: ", FILTERS), (r"Tests (`is ...`): ", TESTS)])
def test_the_reference_lists_the_vocabulary_of_templates(label: str, words: dict[str, Any]) -> None:
    text = language()["Values"]
    listed = text.split(label)[1].split("\n\n")[0]
    assert set(re.findall(r"`([^`]+)`", listed)) == set(words)


# --- the architecture ----------------------------------------------------------------------------


def layers() -> list[list[str]]:
    contracts = tomllib.loads(page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    return [sorted(re.split(r" \| ", line)) for line in contracts[0]["layers"]]


def test_the_table_of_layers_is_the_contract() -> None:
    listed = [
        sorted(re.findall(r"`(\w+)`", cells[0])) for cells in rows(sections("docs/architecture.md")["Layers"])
    ]
    assert listed == layers()


def test_the_pure_layers_are_those_of_the_contract() -> None:
    contracts = tomllib.loads(page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (pure,) = (one for one in contracts if one["name"] == "The pure layers do no I/O and read no clock")
    named = [module.removeprefix("noetl.") for module in pure["source_modules"]]
    sentence = sections("docs/architecture.md")["Layers"].split(" are pure:")[0].rpartition("\n\n")[2]
    assert sorted(re.findall(r"`(\w+)`", sentence)) == sorted(named)


@pytest.mark.parametrize("name", ["engine", "net", "pipeline"])
def test_a_page_at_a_door_names_every_module_behind_it(name: str) -> None:
    folder = ROOT / "noetl" / name
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    text = page(f"noetl/{name}/README.md")
    listed = {word for cells in rows(text) for word in re.findall(r"`(\w+)`", cells[0])}
    assert listed == modules


def test_every_name_of_code_that_the_architecture_uses_exists() -> None:
    text = page("docs/architecture.md") + page("noetl/engine/README.md")
    for dotted in set(re.findall(r"`((?:usecases|engine|pipeline|tools|dispatch)\.[\w.]+)`", text)):
        module, parts_ = dotted.split("."), []
        while module and not _is_module(f"noetl.{'.'.join(module)}"):
            parts_.insert(0, module.pop())
        found: Any = import_module(f"noetl.{'.'.join(module)}")
        for part in parts_:
            found = getattr(found, part)
        assert found is not None


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_the_engines_page_lists_the_rules_in_their_order() -> None:
    from noetl.engine import decide

    listed = re.findall(r"^\d+\. `(\w+)`", page("noetl/engine/README.md"), re.MULTILINE)
    assert listed == [rule.__name__ for rule in decide._RULES]


# --- plans ---------------------------------------------------------------------------------------

PLANNED = """
keychain: {db: {kind: credential, credential: x}}
workload: {host: "{{ env.HOST }}"}
workflow:
  - step: start
    loop: {in: [1], iterator: i}
    tool:
      - {kind: playbook, path: a/b, assert: {returns: [x]}, repeat: {next: {when: "{{ result.x }}", args: {n: 1}}}}
      - {kind: noop, spec: {after: true}}
    next: [end, {step: more}]
  - step: more
    spec: {join: all, policy: {admit: {rules: [{when: "{{ ctx.x }}", then: {allow: true}}]}}}
    tool: {kind: noop}
    next: end
  - {step: end, tool: {kind: noop}}
"""


def planned() -> dict[str, Any]:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: docs/p}\n"
    net = dsl.load_playbook(head + PLANNED, file="p.yaml", kinds=kinds())
    return {
        "ok": True,
        **as_json(foresee(net, PlanInput(Kinds(kinds(), touches, CommandLine)))),
        "undecided": None,
        "problems": [],
    }


def test_plans_lists_every_key_of_the_json_in_its_order() -> None:
    found, text = planned(), sections("docs/plan.md")["JSON"]
    step = found["steps"][0]
    parts_of = [found, step, step["tasks"][0]["repeat"], found["secrets"][0], found["playbooks"][0]]
    tables = re.findall(r"^\| key (?:of `repeat` )?\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text + "\n", re.MULTILINE)
    listed = [[key for row in rows(table) for key in re.findall(r"`(\w+)`", row[0])] for table in tables]
    assert listed == [list(part) for part in parts_of]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tasks", lambda found: found["steps"][0]["tasks"][0]),
        ("next", lambda found: found["steps"][0]["next"][0]),
        ("loop", lambda found: found["steps"][0]["loop"]),
        ("join", lambda found: found["steps"][-1]["join"]),
        ("admit", lambda found: found["steps"][1]["admit"]),
        ("environment", lambda found: found["environment"][0]),
    ],
)
def test_plans_lists_the_keys_of_the_parts_of_the_json(key: str, value: Any) -> None:
    row = next(cells for cells in rows(sections("docs/plan.md")["JSON"]) if f"`{key}`" in cells[0])
    listed = re.search(r"`\{(.*?)\}`", row[2])
    assert listed is not None
    assert re.findall(r"(\w+)(?=[,:]|$)", re.sub(r"\[.*?\]", "", listed[1])) == list(value(planned()))


def test_plans_lists_the_keys_of_what_is_said_of_a_task() -> None:
    first, last = planned()["steps"][0]["tasks"]
    for part in (first["returns"][0], last["after"]):
        assert f"`{{{', '.join(part)}}}`" in sections("docs/plan.md")["JSON"]


def test_plans_lists_every_section_of_the_text() -> None:
    titles = set(re.findall(r'_section\(\s*"([^"]+)"', (ROOT / "noetl/cli/plan.py").read_text()))
    assert set(keys(sections("docs/plan.md")["How to read it"])) == titles


def test_every_file_that_contributing_names_exists() -> None:
    named = set(re.findall(r"`((?:noetl|tests|docs|migrations)/[\w./-]+)`", page("CONTRIBUTING.md")))
    assert len(named) > 25
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
