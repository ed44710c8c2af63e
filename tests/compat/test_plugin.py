"""A plug-in that was built at 46fb24c runs beside NoETL of today (see `plugin/README.md`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import zygote
from tests.waiting import until

SOURCE = Path(__file__).parent / "plugin"
#: What the commands said at 46fb24c: `{run, validate}` (written by `record.py`).
EXPECTED = json.loads((SOURCE / "expected.json").read_text(encoding="utf-8"))
SECRETS = {
    "seal": {"versions": [{"key": "old"}, {"key": "k"}]},
    "wax": {"versions": [{"colour": "red"}, {"colour": "blue"}]},
}

#: A program that runs another one, named by its arguments, with the plug-in.
WITH_PLUGIN = """
import os, runpy, sys
sys.path.insert(1, os.environ["PYTHONPATH"])
sys.argv.pop(0)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

Noetl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the wheel of the plug-in holds."""
    target = tmp_path_factory.mktemp("plugin") / "installed"
    shutil.copytree(SOURCE / "depot_noetl", target / "depot_noetl")
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    information = target / "depot_noetl-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (information / "entry_points.txt").write_text("\n".join(_entry_points(project["entry-points"])))
    return target


def _entry_points(groups: dict[str, dict[str, str]]) -> Iterator[str]:
    for group, points in groups.items():
        yield f"[{group}]"
        yield from (f"{name} = {value}" for name, value in points.items())


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    """That of somebody with the plug-in, two secrets, and the playbooks in the working
    directory."""
    shutil.copytree(SOURCE / "playbooks", tmp_path, dirs_exist_ok=True)
    (tmp_path / "note.txt").write_text("A note.\n")
    (tmp_path / "with_plugin.py").write_text(WITH_PLUGIN)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name, versions in SECRETS.items():
        (secrets / f"{name}.secret").write_text(json.dumps(versions))
    return {
        **os.environ,
        "PYTHONPATH": str(installed),
        "NOETL_HOME": str(tmp_path / "home"),
        "NOETL_SECRETS_DIR": str(secrets),
        "DEPOT_JOURNAL": str(tmp_path / "journal"),
    }


@pytest.fixture
def noetl(environment: dict[str, str], tmp_path: Path) -> Noetl:
    """The command, in that environment."""

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        words = ["with_plugin", "noetl", *argv]
        return zygote.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def known_then(found: Any, then: Any) -> Any:
    """`found` without the keys that later versions added to its mappings."""
    if isinstance(found, dict) and isinstance(then, dict):
        return {key: known_then(found[key], value) for key, value in then.items() if key in found}
    if isinstance(found, list) and isinstance(then, list) and len(found) == len(then):
        return [known_then(*pair) for pair in zip(found, then, strict=True)]
    return found


def test_each_kind_runs_as_it_did(environment: dict[str, str], tmp_path: Path) -> None:
    # A true process, which finds the plug-in by itself.
    argv = [sys.executable, "-m", "noetl", "run", "every.yaml", "--json"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    sealed = report["steps"]["hand"]["result"]["wax"]
    assert (sealed["kind"], sealed["keychain"]) == ("secret_ref", "wax")
    kept = EXPECTED["run"]
    for part in ("status", "result", "ctx"):
        assert known_then(report[part], kept[part]) == kept[part]
    for name, step in kept["steps"].items():
        assert known_then(report["steps"][name], step) == step, name
    assert (tmp_path / "journal").read_text().splitlines() == ["errand begun"] * 3 + ["digest closed"]
    assert list(tmp_path.glob("errand-*")) == []


def test_validating_asks_what_each_class_declares(noetl: Noetl) -> None:
    assert noetl("validate", "every.yaml", "--strict").returncode == 0
    refused = noetl("validate", "wrong.yaml")
    assert refused.returncode == 2
    said = refused.stdout + refused.stderr
    assert [fault for fault in EXPECTED["validate"] if fault not in said] == []


def test_plans_show_what_is_touched_and_which_secrets_must_be_there(noetl: Noetl) -> None:
    plan = noetl("plan", "every.yaml").stdout
    assert "digest  a seal by sha256" in plan
    assert re.search(r"seal +keychain, secret of depot seal +used by signed +there", plan)
    assert re.search(r"depot: start, signed, print, plain, errand, hand, opened, wrong", plan)


def test_its_kinds_are_listed_explained_and_tried(noetl: Noetl) -> None:
    listed = {one["kind"]: one for one in json.loads(noetl("tool", "list", "--json").stdout)}
    mine = {kind: one for kind, one in listed.items() if one["origin"] == "depot-noetl 1.0"}
    assert set(mine) == {"digest", "press", "errand", "courier", "shelf"}
    assert {one["queue"] for one in mine.values()} == {"depot"}
    assert mine["digest"]["description"] == "Computes the digest of a text."
    shown = noetl("tool", "show", "digest").stdout
    for part in (
        "compares it where it is told what to expect",
        "How it is computed.",
        "{algorithm, hex, call}",
        "type `Mismatch`",
        "{kind: digest, text:",
    ):
        assert part in shown
    tried = noetl("tool", "test", "digest", "--config", "text: hello")
    assert (tried.returncode, json.loads(tried.stdout)["hex"][:8]) == (0, "2cf24dba")
    waited = noetl("tool", "test", "errand", "--config", "{folder: ., rounds: 1, every: 0.01}")
    assert (waited.returncode, json.loads(waited.stdout)["rounds"]) == (0, 1)
    refused = noetl("tool", "test", "digest", "--config", "{text: hello, expect: x}")
    assert (refused.returncode, "not what `expect` says" in refused.stderr) == (1, True)


def test_calls_are_interrupted_and_what_was_begun_elsewhere_is_ended(
    environment: dict[str, str], tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    words = ["with_plugin", "noetl", "run", "slow.yaml", "--quiet"]
    with zygote.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        until(
            lambda: (
                running.poll() is not None
                or (journal.exists() and len(journal.read_text().splitlines()) == 2)
            ),
            "both calls to have begun",
        )
        assert running.poll() is None
        assert len(list(tmp_path.glob("errand-*"))) == 1
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 1
    assert sorted(journal.read_text().splitlines()) == [
        "digest closed",
        "digest interrupted",
        "digest waits",
        "errand begun",
        "errand called off",
    ]
    assert list(tmp_path.glob("errand-*")) == []


def test_its_own_tests_pass(environment: dict[str, str], tmp_path: Path) -> None:
    tests = shutil.copytree(SOURCE / "tests", tmp_path / "tests")
    shutil.copy(tmp_path / "with_plugin.py", tests)
    # Where it is forked, NoETL and its plug-in for pytest are there already.
    warnings = ["-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    words = ["with_plugin", "pytest", "-q", *warnings, "-p", "no:cacheprovider", "--rootdir", "."]
    done = zygote.run(words, cwd=tests, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "17 passed" in done.stdout


def test_the_directory_of_the_playbook_is_among_the_services(noetl: Noetl) -> None:
    report = json.loads(noetl("run", "shelf.yaml", "--json").stdout)
    assert report["result"] == "A note.\n", report["error"]
