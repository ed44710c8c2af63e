"""What is built from the tree runs where nothing of the tree is: in a fresh environment, from an
empty directory."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from packaging.version import Version

from tests.ports import free_port
from tests.waiting import GUARD_S, until

from .packaging import (
    ROOT,
    Environment,
    build_sdist,
    build_wheel,
    commit,
    copy_tree,
    git,
    metadata_version,
    ports,
)

pytestmark = pytest.mark.acceptance

HELLO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: wheel/hello}
workload: {name: world}
workflow:
  - step: start
    tool: {kind: python, input: {name: "{{ workload.name }}"}, code: 'result = f"Hello, {name}!"'}
    next: end
  - step: end
    tool: {kind: noop, input: {said: "{{ start }}"}}
"""

BELL = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bell, path: wheel/bell}
workflow:
  - step: start
    tool: {kind: quantum, builder: {name: ghz, qubits: 2}, measure: true, repetitions: 100, seed: 1}
    next: end
  - step: end
    tool: {kind: noop, input: {seen: "{{ start.histogram.keys() | sort }}"}}
"""

#: Its second step fails.
BROKEN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: broken, path: wheel/broken}
workflow:
  - step: start
    tool: {kind: python, code: result = 6}
    next: divide
  - step: divide
    tool: {kind: python, input: {n: "{{ start }}"}, code: "result = {'said': n / 0}"}
"""

#: An older dialect.
OLD = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: old, path: wheel/old}
workflow:
  - step: start
    next: end
  - step: end
"""


@dataclass(frozen=True)
class Built:
    """A clone, and what was built from it."""

    clone: Path
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    clone = copy_tree(folder / "clone")
    return Built(clone, build_wheel(clone, folder / "wheel"), build_sdist(clone, folder / "sdist"))


@pytest.fixture(scope="module")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Has the wheel installed."""
    made = Environment.make(tmp_path_factory.mktemp("wheel"))
    made.install("--no-deps", str(built.wheel))
    for name, text in (("hello", HELLO), ("bell", BELL), ("old", OLD)):
        (made.work / f"{name}.yaml").write_text(text)
    return made


@pytest.mark.full("another installation")
def test_pip_makes_the_same_of_the_source_distribution(built: Built, tmp_path: Path) -> None:
    (made,) = (build_wheel(built.sdist, tmp_path / "made"),)
    assert made.name == built.wheel.name
    contents = []
    for one in (made, built.wheel):
        with zipfile.ZipFile(one) as archive:
            contents.append({entry.filename: entry.CRC for entry in archive.infolist()})
    assert contents[0] == contents[1]


def test_nothing_of_the_checkout_is_importable(environment: Environment) -> None:
    code = (
        "import importlib.util as u, noetl, noetl.migrations as m; "
        "print(noetl.__file__, m.__file__, [u.find_spec(x) for x in ('celeryconfig', 'tests', 'migrations')])"
    )
    ours, migrations, *others = environment.run("python", "-c", code).stdout.split(maxsplit=2)
    assert ours.startswith(str(environment.site))
    assert migrations.startswith(str(environment.site))
    assert others == ["[None, None, None]\n"]


def test_the_commands_that_need_no_service_run(environment: Environment) -> None:
    assert _result(environment.run("noetl", "run", "hello.yaml", "--json"))["said"] == "Hello, world!"
    assert _result(environment.run("noetl", "run", "bell.yaml", "--json"))["seen"] == ["00", "11"]
    assert "noetl, version 0." in environment.run("python", "-m", "noetl", "--version").stdout
    asked = (
        ["validate", "old.yaml", "hello.yaml", "bell.yaml"],
        ["validate", "--explain", "NOETL454"],
        ["migrate", "old.yaml"],
        ["graph", "hello.yaml"],
        ["tool", "list"],
        ["schema"],
    )
    answers = json.loads(environment.run("python", "-c", ONE_BY_ONE, json.dumps(asked)).stdout)
    assert [code for code, _ in answers] == [0] * len(asked), answers
    _, explained, _, graph, tools, schema = (said for _, said in answers)
    assert "NOETL454" in explained
    assert "flowchart" in graph
    assert "python" in tools
    assert json.loads(schema)["properties"]["tests"]["description"].startswith("What `noetl test` tries")


#: Runs commands one behind the other, and prints the exit code of each and what it says.
ONE_BY_ONE = """
import contextlib, io, json, sys
from noetl.cli.main import main
answers = []
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    sys.argv[1:] = words
    with contextlib.redirect_stdout(said):
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code or 0
    answers.append((code, said.getvalue()))
print(json.dumps(answers))
"""


def test_a_run_that_failed_goes_on_with_the_fix(environment: Environment) -> None:
    (environment.work / "broken.yaml").write_text(BROKEN)
    failed = environment.run("noetl", "run", "broken.yaml", "--json", check=False)
    assert failed.returncode == 1
    execution_id = json.loads(failed.stdout)["execution_id"]
    (environment.work / "broken.yaml").write_text(BROKEN.replace("n / 0", "n / 2"))
    again = ("noetl", "execution", "retry", execution_id, "--playbook", "broken.yaml")
    planned = json.loads(environment.run(*again, "--dry-run", "--json").stdout)
    assert [(run["step"], run["verdict"]) for run in planned["runs"]] == [
        ("start", "reuse"),
        ("divide", "rerun"),
    ]
    done = environment.run(*again, "--json")
    assert _result(done) == {"said": 3.0}
    steps = json.loads(done.stdout)["steps"]
    assert (steps["start"]["reused"], steps["divide"].get("reused", 0)) == (1, 0)


def _result(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    report = json.loads(done.stdout)
    assert report["status"] == "completed", report
    found: dict[str, object] = report["result"]
    return found


@pytest.mark.long("test_up.py runs it from the checkout, and the next test a server and a worker from here")
def test_the_whole_stack_runs(environment: Environment) -> None:
    done = environment.run("noetl", "up", "--run", "hello.yaml", "--json", **ports())
    assert _result(done)["said"] == "Hello, world!"


@pytest.mark.redis
@pytest.mark.postgres
def test_a_worker_of_celery_and_a_server_run_an_execution(
    environment: Environment, empty_postgres_url: str, broker_of_module: str
) -> None:
    settings = {"NOETL_DATABASE_URL": empty_postgres_url, "NOETL_BROKER_URL": broker_of_module}
    asked = json.dumps([["db", "upgrade"], ["db", "check"]])
    answers = json.loads(environment.run("python", "-c", ONE_BY_ONE, asked, **settings).stdout)
    assert [code for code, _ in answers] == [0, 0], answers
    port = str(free_port())
    worker = ["-m", "celery", "-A", "noetl", "worker", "-Q", "scheduler,python,default", "-P", "solo"]
    with (
        environment.running("server", ("-m", "noetl", "server", "--port", port), **settings),
        environment.running("worker", worker, **settings),
    ):
        server = f"http://127.0.0.1:{port}"
        until(lambda: _answers(f"{server}/api/health"), "the server")
        done = environment.run("noetl", "run", "hello.yaml", "--server", server, "--json")
    assert _result(done)["said"] == "Hello, world!"


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=GUARD_S).ok
    except requests.RequestException:
        return False


# --- what is in them -----------------------------------------------------------------------------


def test_they_have_every_file_that_the_tree_has(built: Built) -> None:
    tracked = set(git(built.clone, "ls-files").split())
    with tarfile.open(built.sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked - in_sdist == set()
    packages = {name for name in tracked if name.startswith(("noetl/", "migrations/"))}
    wanted = {re.sub("^migrations/", "noetl/migrations/", name) for name in packages}
    with zipfile.ZipFile(built.wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    # What the pages of the layers say is for those who read the code.
    assert {name for name in wanted - in_wheel if not name.endswith("README.md")} == set()
    assert in_wheel - wanted == {"noetl/_version.py"}


# --- versions, and who else is installed ---------------------------------------------------------


@pytest.fixture(scope="module")
def from_git(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Has the newest commit of the clone installed."""
    made = Environment.make(tmp_path_factory.mktemp("git"))
    made.install(f"noetl-celery @ git+file://localhost{built.clone}")
    return made


@pytest.mark.full("installations of its own")
def test_an_install_from_git_upgrades_to_the_next_commit(from_git: Environment, built: Built) -> None:
    older = _version(from_git)
    assert (older.local or "").startswith(f"g{git(built.clone, 'rev-parse', '--short=7', 'HEAD').strip()}")
    node = commit(built.clone, "Another")
    from_git.install(f"noetl-celery[migrate] @ git+file://localhost{built.clone}")
    newer = _version(from_git)
    assert newer > older
    assert (newer.local or "").startswith(f"g{node}")


def _version(environment: Environment) -> Version:
    return Version(environment.run("noetl", "--version").stdout.split()[-1])


@pytest.mark.full("installations of its own")
def test_an_extra_and_a_plugin_find_the_installed_noetl_without_any_index(from_git: Environment) -> None:
    version = _version(from_git)
    from_git.install("noetl-celery[migrate,qsim]")
    plugin = from_git.root / "plugin"
    plugin.mkdir()
    page = (ROOT / "docs/how-to/write-a-tool.md").read_text(encoding="utf-8")
    for language, name in (("toml", "pyproject.toml"), ("python", "noetl_checksum.py")):
        (block,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (plugin / name).write_text(block)
    from_git.install(str(plugin))
    assert "checksum" in from_git.run("noetl", "tool", "list").stdout
    assert _version(from_git) == version


@pytest.mark.full("installations of its own")
def test_doctor_finds_another_distribution_that_owns_the_package(from_git: Environment) -> None:
    assert "ok   package" in from_git.run("noetl", "doctor", check=False).stdout
    foreign = from_git.site / "noetl-2.1.dist-info"
    foreign.mkdir()
    (foreign / "METADATA").write_text("Metadata-Version: 2.1\nName: noetl\nVersion: 2.1\n")
    (foreign / "RECORD").write_text("noetl/__init__.py,,\n")
    done = from_git.run("noetl", "doctor", check=False)
    assert done.returncode == 1
    assert "miss package: noetl brings a package noetl as well" in done.stdout
    assert "pip uninstall noetl`, then install NoETL again" in done.stdout


@pytest.mark.full("installations of its own")
def test_the_version_is_had_without_git_and_from_a_part_of_the_history(built: Built, tmp_path: Path) -> None:
    shallow, exported = tmp_path / "shallow", tmp_path / "exported"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{built.clone}", str(shallow))
    node = git(shallow, "rev-parse", "--short=7", "HEAD").strip()
    found = Version(metadata_version(shallow, tmp_path / "1"))
    assert (found.base_version in ("0.1", "0.1.0"), found.dev) == (True, 1)
    assert (found.local or "").startswith(f"g{node}")
    shutil.copytree(shallow, exported, ignore=shutil.ignore_patterns(".git", "_version.py", "*.egg-info"))
    assert metadata_version(exported, tmp_path / "2") == "0.1.0.dev0"
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert (
        metadata_version(unpacked, tmp_path / "3") == built.sdist.name.removesuffix(".tar.gz").split("-")[1]
    )
