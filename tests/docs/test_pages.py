"""Links lead somewhere, examples compile and do what the text says, and nothing is left unfinished."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from pages import ROOT, Block, bare, blocks, files, page, rows, sections

from noetl.dsl import Code, compile_playbook
from noetl.testing import Simulation
from noetl.tools.registry import kinds

# --- examples --------------------------------------------------------------------------------------

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example, path: docs/example}\nworkflow:\n"
PAGES = [block for block in blocks("yaml") if "workflow:" in block.text]
#: Blocks that are a list of steps; the rest of their playbook is left to the reader.
PARTS = [block for block in blocks("yaml") if re.match(r"- step:", block.text)]


def problems(text: str, place: str) -> list[str]:
    compiled = compile_playbook(text, file=place, kinds=kinds())
    # Parts read a workload that they do not show.
    return [str(problem) for problem in compiled.problems if problem.code is not Code.UNDEFINED]


@pytest.mark.parametrize("block", PAGES, ids=lambda block: block.place)
def test_every_playbook_of_the_documentation_compiles(block: Block) -> None:
    assert [str(one) for one in compile_playbook(block.text, file=block.place, kinds=kinds()).problems] == []


@pytest.mark.parametrize("block", PARTS, ids=lambda block: block.place)
def test_every_list_of_steps_in_the_documentation_compiles(block: Block) -> None:
    assert problems(HEADER + block.text, block.place) == []


def test_examples_are_found() -> None:
    assert len(PAGES) >= 5
    assert len(PARTS) >= 10


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.place)
def test_every_yaml_block_is_yaml(block: Block) -> None:
    assert yaml.safe_load(block.text) is not None


def example(path: str) -> str:
    """The playbook with that `metadata.path`."""
    return next(block.text for block in PAGES if f"path: {path}" in block.text)


def test_the_journey_is_the_one_that_an_execution_makes() -> None:
    told = [
        (cells[1], re.findall(r"`([a-z.]+)`", cells[3]))
        for cells in rows(sections("docs/architecture.md")["The journey of one event"])
        if re.fullmatch(r"\d+", cells[0])
    ]
    simulation = Simulation(example("docs/journey"), {"python": lambda call: 42})
    execution_id = simulation.start()
    seen = [("API", simulation.types(execution_id))]
    messages = 1
    while simulation.mailbox.messages:
        before = len(simulation.events(execution_id))
        message = simulation.mailbox.messages[0]
        who = "worker" if message.command else "scheduler"
        messages += len(simulation.mailbox.messages) - 1
        simulation.deliver()
        messages += len(simulation.mailbox.messages)
        seen.append((who, simulation.types(execution_id)[before:]))
    assert [(who, types) for who, types in told if types] == seen
    assert len(simulation.events(execution_id)) == sum(len(types) for _, types in told) == 14
    assert messages == 3
    assert simulation.report(execution_id).row.status == "completed"


def test_the_loop_fans_out_into_lanes_and_in_again_as_told() -> None:
    simulation = Simulation(example("docs/fan"), {"python": lambda call: call.args["n"] ** 2})
    execution_id = simulation.start()
    simulation.settle()
    counts = Counter(simulation.types(execution_id))
    assert counts["loop.started"] == counts["loop.done"] == counts["step.done"] == 1
    assert counts["command.issued"] == 2
    assert counts["task.done"] == counts["loop.iteration.done"] == 3
    assert simulation.report(execution_id).result["results"] == [1, 4, 9]


def test_the_example_of_a_workbook_does_what_it_says() -> None:
    report = Simulation(example("docs/book")).run()
    assert report.result == 8


def test_the_example_of_a_workload_does_what_it_says() -> None:
    assert Simulation(example("docs/greet")).run().result == {"text": "Hello, world!"}
    assert Simulation(example("docs/greet")).run(name="Ada").result == {"text": "Hello, Ada!"}


def test_the_playbook_of_the_readme_yields_what_it_says() -> None:
    text = page("README.md")
    assert '{"sum": 30}' in text
    square = {"python": lambda call: call.args["n"] ** 2}
    assert Simulation(example("examples/squares"), square).run().result == {"sum": 30}


# --- links -----------------------------------------------------------------------------------------

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(file: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", bare(file.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file: Path) -> None:
    for link in _LINK.findall(bare(file.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{link} names no section"


# --- words -----------------------------------------------------------------------------------------

#: Directories of one machine, and words of pages that are not finished.
_UNFIT = re.compile(
    r"/(?:root|work|opt/\w+-dev|home/\w+|Users/\w+)/|\b(?:TODO|TBD|FIXME|XXX|WIP|lorem ipsum)\b"
)


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_pages_are_finished_and_belong_to_no_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [found[0] for found in _UNFIT.finditer(text)] == []
    assert "\t" not in text
    assert text.endswith("\n")
    assert text.startswith("# ")


@pytest.mark.parametrize("file", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda file: file.stem)
def test_decisions_have_a_number_a_status_and_three_parts(file: Path) -> None:
    name = f"docs/decisions/{file.name}"
    assert page(name).startswith(f"# {int(file.name[:4])}. ")
    assert "\nStatus: accepted.\n" in page(name)
    parts = list(sections(name))[2:]
    assert parts == ["Context", "Decision", "Consequences"]
