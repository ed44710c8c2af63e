"""kind: python with `script`: files, results and addresses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.dsl import compile_playbook
from noetl.errors import BadRequest
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.facts.reference import Retention
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.kit.registry import Registry, kinds
from noetl.usecases.ports import Results
from tests.httpd import Server, started, stopped
from tests.waiting import GUARD_S

SCRIPT = "def main(n):\n    return n * 2\n"
FAILING = "def check(n):\n    raise ValueError(f'{n} is odd')\n\ndef main(n):\n    check(n)\n"

Run = Callable[..., Outcome]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The playbook's directory."""
    folder = tmp_path / "folder"
    (folder / "lib").mkdir(parents=True)
    (folder / "double.py").write_text(SCRIPT)
    (folder / "lib" / "failing.py").write_text(FAILING)
    (tmp_path / "outside.py").write_text("result = 'outside'")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(f"file://{tmp_path}/results")


@pytest.fixture
def registry(tmp_path: Path, folder: Path, results: Results) -> Iterator[Registry]:
    services = Services(
        scratch=tmp_path / "scratch",
        files=FilePolicy(roots=(folder,), directories=(folder,)),
        results=results,
        allow_private_networks=True,
    )
    made = Registry(services)
    yield made
    made.close()


@pytest.fixture
def run(registry: Registry) -> Run:
    def ran(script: Any, **config: Any) -> Outcome:
        where = Where("1", "r", "s")
        return registry.run(
            Call("python", {"script": script, **config}, {"n": 21}, {}, where, "t", 1, "key", GUARD_S)
        )

    return ran


@pytest.fixture
def server() -> Iterator[Server]:
    made = started()
    yield made
    stopped(made)


def failure(outcome: Outcome) -> ErrorInfo:
    assert outcome.error is not None
    return outcome.error


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "double.py",
        "./lib/../double.py",
        {"file": "double.py"},
        {"path": "double.py", "sha256": sha256(SCRIPT).upper()},
    ],
    ids=str,
)
def test_a_script_is_a_file_below_the_playbooks_directory(run: Run, script: Any) -> None:
    outcome = run(script)
    assert outcome.error is None
    assert outcome.result == 42


def test_a_script_knows_its_file_and_changes_with_it(run: Run, folder: Path) -> None:
    (folder / "data.txt").write_text("beside")
    reading = "from pathlib import Path\nreturn Path(__file__).with_name('data.txt').read_text()"
    (folder / "read.py").write_text(reading)
    assert run("read.py").result == "beside"
    (folder / "read.py").write_text("result = 'changed'")
    assert run("read.py").result == "changed"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("../outside.py", "The script '../outside.py' leads out of"),
        ("link.py", "The script 'link.py' leads out of"),
        ("/etc/passwd", "The script '/etc/passwd' leads out of"),
        ("%2e%2e/outside.py", "The script '%2e%2e/outside.py' cannot be read: there is no such file in /"),
        ("nope.py", "The script 'nope.py' cannot be read: there is no such file in /"),
        ("lib", "The script 'lib' cannot be read: it is no file."),
        ("a\0b", "The script names no usable file: embedded null byte."),
        (
            "file:///etc/passwd",
            "has no address that is spoken here: http, https and noetl are; a file is named by its path",
        ),
        ({"file": "double.py", "sha256": "0" * 64}, f"has the sha256 {sha256(SCRIPT)}, not {'0' * 64}."),
        (
            {"file": "double.py", "ref": "noetl://x"},
            "exactly one of file, path, ref, url and uri must be given",
        ),
        ({"file": "double.py", "sha256": "abc"}, "sha256 must be 64 hexadecimal digits"),
    ],
    ids=str,
)
def test_a_script_that_is_not_a_file_of_the_playbook_is_refused(run: Run, script: Any, message: str) -> None:
    error = failure(run(script))
    assert (error.kind, error.retryable) == ("client_error", False)
    assert message in error.message


def test_code_and_script_exclude_one_another_and_one_is_needed(run: Run) -> None:
    assert "only one of code and script may be given" in failure(run("double.py", code="1")).message
    assert failure(run("")).message == "The python task needs 'code' or 'script', which is missing or empty."


def test_a_worker_without_a_playbook_directory_says_so(tmp_path: Path) -> None:
    registry = Registry(Services(scratch=tmp_path))
    call = Call("python", {"script": "double.py"}, {}, {}, Where("1", "r", "s"), "t", 1, "key")
    assert "NOETL_FILE_ROOTS" in failure(registry.run(call)).message
    registry.close()


def test_errors_name_the_file_and_the_line_of_the_script(run: Run, folder: Path) -> None:
    outcome = run("lib/failing.py")
    error = failure(outcome)
    assert (error.kind, error.type, error.line) == ("python", "ValueError", None)
    assert error.message == "lib/failing.py:2: 21 is odd"
    assert error.traceback is not None
    assert 'File "lib/failing.py", line 5, in main' in error.traceback
    assert "raise ValueError" in error.traceback
    assert (outcome.extras["py"]["script"], outcome.extras["py"]["line"]) == ("lib/failing.py", 2)
    (folder / "broken.py").write_text("x = 1\ny = (\n")
    assert failure(run("broken.py")).message == "broken.py:2: '(' was never closed"
    (folder / "bytes.py").write_bytes(b"x = '\xff'")
    assert "The script bytes.py is not UTF-8" in failure(run("bytes.py")).message
    (folder / "large.py").write_text("#" * 1_100_000)
    assert failure(run("large.py")).kind == "limit"


# --- results -------------------------------------------------------------------------------------


def test_a_script_is_a_result_that_is_a_text(run: Run, results: Results, tmp_path: Path) -> None:
    kept = results.put(SCRIPT, Retention("1"))
    (tmp_path / "x.py").write_text(SCRIPT)
    file = results.put_file(tmp_path / "x.py", "text/plain", Retention("1"))
    for script in (
        kept["ref"],
        {"ref": kept["ref"]},
        {"ref": kept},
        {"uri": file["ref"], "sha256": sha256(SCRIPT)},
    ):
        outcome = run(script)
        assert outcome.error is None
        assert outcome.result == 42
    assert run({"ref": SCRIPT}).result == 42, "small results come as they are"
    assert failure(run({"ref": "x = 1\n1 / 0"})).message == "<result>:2: division by zero"
    number = results.put([1], Retention("1"))
    assert failure(run(number["ref"])).message == f"The script {number['ref']} is a list, and no text."
    gone = failure(run(f"noetl://results/{'0' * 64}"))
    assert gone.kind == "client_error"
    assert "gone" in gone.message
    assert "is no reference to a result" in failure(run("noetl://nonsense")).message


# --- addresses -----------------------------------------------------------------------------------


def test_a_script_from_an_address_runs_when_its_hash_is_right_and_is_fetched_once(
    run: Run, server: Server
) -> None:
    server.routes = {"/s.py": lambda to: to.answer(SCRIPT.encode())}
    url = f"{server.url}/s.py?token=secret"
    for _ in range(3):
        assert run({"url": url, "sha256": sha256(SCRIPT)}).result == 42
    assert len(server.seen) == 1
    wrong = failure(run({"uri": url, "sha256": "0" * 64}))
    assert wrong.type == "BadHash"
    assert wrong.message == f"The script {server.url}/s.py has the sha256 {sha256(SCRIPT)}, not {'0' * 64}."
    assert len(server.seen) == 2
    for without in (url, {"url": url}):
        unhashed = failure(run(without))
        assert unhashed.message == (
            f"The script {server.url}/s.py needs its hash: script: {{url: ..., sha256: ...}}."
        )
    assert len(server.seen) == 2, "what has no hash is not even fetched"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"), [(404, "client_error", False), (503, "server_error", True)]
)
def test_an_address_that_does_not_answer_with_a_script_is_an_error_of_its_own(
    run: Run, server: Server, status: int, kind: str, retryable: bool
) -> None:
    server.routes = {"/s.py": lambda to: to.answer(b"no", status)}
    error = failure(run({"url": f"{server.url}/s.py", "sha256": sha256(SCRIPT)}))
    assert (error.kind, error.retryable) == (kind, retryable)
    assert f"{server.url}/s.py answered {status}" in error.message


def test_addresses_of_scripts_obey_the_rules_of_http(tmp_path: Path, server: Server) -> None:
    server.routes = {"/s.py": lambda to: to.answer(b"#" * 2_000_000)}
    registry = Registry(Services(scratch=tmp_path, allow_private_networks=False))
    script = {"url": f"{server.url}/s.py", "sha256": sha256(SCRIPT)}
    call = Call("python", {"script": script}, {}, {}, Where("1", "r", "s"), "t", 1, "key")
    assert "a loopback address" in failure(registry.run(call)).message
    assert server.seen == []
    registry.close()
    registry = Registry(Services(scratch=tmp_path, allow_private_networks=True))
    assert failure(registry.run(call)).type == "BodyTooLarge"
    registry.close()


# --- validate ------------------------------------------------------------------------------------


def problems(script: str, **files: str) -> list[dict[str, Any]]:
    def read(name: str) -> str:
        if name not in files:
            raise BadRequest(f"The script '{name}' cannot be read: there is no such file.")
        return files[name]

    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: s, path: s}\n"
        f"workflow:\n  - step: start\n    tool:\n      kind: python\n      script: {script}\n"
    )
    compiled = compile_playbook(text, file="p.yaml", kinds=kinds(), sources=read)
    return [problem.as_json() for problem in compiled.problems]


@pytest.mark.parametrize("script", ["a", "{file: a}", "{path: a}"])
def test_validate_finds_a_missing_script_and_a_syntax_error_in_one(script: str) -> None:
    assert problems(script, a="x = 1") == []
    (missing,) = problems(script)
    assert (missing["severity"], missing["line"]) == ("error", 8)
    assert missing["message"] == "The script 'a' cannot be read: there is no such file"
    (broken,) = problems(script, a="x = 1\ny = (")
    assert (broken["severity"], broken["line"], broken["message"]) == (
        "error",
        8,
        "python: a:2: '(' was never closed",
    )


@pytest.mark.parametrize(
    "script",
    ["'{{ workload.file }}'", "noetl://results/x", "{ref: x}", "https://x/y.py", "{url: https://x/y.py}"],
)
def test_validate_leaves_alone_what_is_not_a_file_beside_the_playbook(script: str) -> None:
    assert [one for one in problems(script) if one["severity"] == "error"] == []


def test_the_command_looks_beside_the_playbook(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from noetl.cli.main import main

    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: s, path: s}\n"
        "workflow:\n  - {step: start, tool: {kind: python, script: NAME}}\n"
    )
    seen = {}
    for name in ("double.py", "nope.py", "link.py"):
        (folder / "p.yaml").write_text(text.replace("NAME", name))
        with pytest.raises(SystemExit) as ended:
            main(["validate", str(folder / "p.yaml"), "--format", "json"])
        seen[name] = (
            ended.value.code,
            [one["message"] for one in json.loads(capsys.readouterr().out)["problems"]],
        )
    assert seen["double.py"] == (0, [])
    assert seen["nope.py"] == (
        2,
        [f"The script 'nope.py' cannot be read: there is no such file in {folder} or {Path.cwd()}"],
    )
    # The user may read what it leads to.
    assert seen["link.py"][0] == 0
