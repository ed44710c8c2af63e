"""The tutorial and the guides are followed to the letter: a test writes their files, types their
commands, and compares what they print with what the page shows.

A file is a fenced block behind a line that ends with its name (`orders.yaml`:). Commands are
indented by four spaces. A block of JSON or text behind them is what the last one prints.
`# exit code 1` behind a command says how it ends; `ID` is the execution that ran last.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, page
from sqlalchemy import make_url
from werkzeug.serving import make_server

from noetl import bootstrap
from noetl.api.app import create_app
from noetl.cli.main import main
from noetl.config import Settings
from tests import zygote
from tests.ports import free_port

GUIDES = sorted(file.name for file in (ROOT / "docs/how-to").glob("*.md"))
#: Code of the page about tools runs in test_pages.py, and installed in tests/acceptance.
PAGES = [
    "docs/tutorial.md",
    *(f"docs/how-to/{name}" for name in GUIDES if name not in ("README.md", "write-a-tool.md")),
]

#: Commands that start or install something: fixtures or tests/acceptance do that.
BY_HAND = ("python examples/server.py", "noetl up", "noetl status", "noetl down", "pip install")

_PART = re.compile(
    r"^[^\n]*`(?P<name>[\w./-]+\.\w+)`:\n\n```\w*\n(?P<file>.*?)^```$"
    r"|^```(?P<kind>json|text)\n(?P<output>.*?)^```$"
    r"|^```\w[\w ]*\n.*?^```$"
    r"|^    (?P<command>\S[^\n]*)$",
    re.MULTILINE | re.DOTALL,
)
_ID = re.compile(r"\b\d{15,}\b")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def examples_url() -> Iterator[str]:
    """The address of `examples/server.py`."""
    server = runpy.run_path(str(ROOT / "examples/server.py"))["ExamplesServer"]()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.url
    server.shutdown()
    server.server_close()


@pytest.fixture
def api_url(tmp_path: Path) -> Iterator[str]:
    """The address of a REST API that runs what it is asked for."""
    port = free_port()
    settings = Settings(home=tmp_path / "served", port=port)
    with bootstrap.local(settings) as rt:
        server = make_server("127.0.0.1", port, create_app(rt, settings), threaded=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        server.server_close()


@pytest.fixture
def warehouse(empty_postgres_url: str) -> str:
    """A PostgreSQL database as users name it."""
    return make_url(empty_postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)


#: What pages write → the fixture that is the real thing.
REAL = {
    "http://127.0.0.1:8765": "examples_url",
    "http://127.0.0.1:8642": "api_url",
    "postgresql://etl:secret@127.0.0.1/warehouse": "warehouse",
    "redis://127.0.0.1:6379/0": "redis_url",
}


class Reader:
    """Follows a page in a folder of her own."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.ended: Ended | None = None
        self.execution_id = ""
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def type(self, line: str) -> None:
        command, _, comment = line.partition("  #")
        if command.startswith("export "):
            name, _, value = shlex.split(command)[1].partition("=")
            return self._monkeypatch.setenv(name, value)
        self.ended = self._do(re.sub(r"\bID\b", self.execution_id, command))
        expected = re.search(r"exit code (\d)", comment)
        assert self.ended.code == (int(expected[1]) if expected else 0), f"{line}\n{self.ended.err}"
        if found := _ID.search(self.ended.err):
            self.execution_id = found[0]
        return None

    def _do(self, command: str) -> Ended:
        """Without a process of its own where it is `noetl`, whose output may go to a file; else in
        a fork."""
        words = shlex.split(command)
        assert not {"|", "<", "&&"} & set(words), f"the test knows no such command: {command}"
        if words[0] == "noetl":
            begin, *file = (part.strip() for part in command.split(" > "))
            ended = self._here(shlex.split(begin)[1:])
            if file:
                self.write(file[0], ended.out)
            return ended
        program, *arguments = words[1:]
        assert words[0] == "python"
        module = arguments if program == "-m" else [Path(program).stem, *arguments]
        done = zygote.run(module, cwd=self.folder, capture_output=True, text=True)
        return Ended(done.returncode, done.stdout, done.stderr)

    def _here(self, argv: list[str]) -> Ended:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(argv)
        return Ended(int(ended.value.code or 0), *self._capsys.readouterr())

    def compare(self, kind: str, shown: str) -> None:
        assert self.ended is not None
        if kind == "json":
            assert json.loads(self.ended.out) == json.loads(shown)
        else:
            assert _ID.sub("ID", self.ended.out).strip() == shown.strip()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reader:
    for name in [name for name in os.environ if name.startswith("NOETL_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Reader(folder, monkeypatch, capsys)


def real(text: str, fixture: Callable[[str], Any]) -> str:
    for written, name in REAL.items():
        if written in text:
            text = text.replace(written, fixture(name))
    return text


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_shows(name: str, reader: Reader, request: pytest.FixtureRequest) -> None:
    for part in _PART.finditer(real(page(name), request.getfixturevalue)):
        if part["name"]:
            reader.write(part["name"], part["file"])
        elif part["command"] and not part["command"].startswith(BY_HAND):
            reader.type(part["command"])
        elif part["output"]:
            reader.compare(part["kind"], part["output"])


def test_every_playbook_of_a_guide_is_a_file_that_a_command_runs() -> None:
    for name in PAGES:
        text = page(name)
        named = [part["name"] for part in _PART.finditer(text) if part["name"]]
        typed = [part["command"] for part in _PART.finditer(text) if part["command"]]
        wholes = len(re.findall(r"^kind: Playbook$", text, re.MULTILINE))
        playbooks = [one for one in named if one.endswith((".yaml", ".yml"))]
        assert len(playbooks) >= wholes, f"{name} has a playbook without a name"
        assert not playbooks or any("noetl " in line or "python " in line for line in typed), name


def test_the_guide_to_deployments_has_the_processes_of_the_procfile() -> None:
    def asked(text: str) -> list[tuple[str, str]]:
        return sorted(re.findall(r"celery -A noetl worker.*? -Q (\S+).*? -P (\w+)", text))

    text = page("docs/how-to/deploy-with-celery-and-flower.md")
    assert asked(text) == asked((ROOT / "Procfile").read_text(encoding="utf-8"))
    for name in re.findall(r"^(\w+):", (ROOT / "Procfile").read_text(encoding="utf-8"), re.MULTILINE):
        assert {"server": "API", "io": "workers that wait", "code": "workers that compute"}.get(
            name, name
        ) in text


def test_the_list_of_guides_links_every_guide() -> None:
    text = page("docs/how-to/README.md")
    guides = {file.name for file in (ROOT / "docs/how-to").glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", text)) == guides
    assert len(guides) >= 20
