"""A package of somebody else brings a tool: the code of `docs/how-to/write-a-tool.md`, built,
installed and used."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import zygote

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/write-a-tool.md").read_text(encoding="utf-8")
HELLO = hashlib.sha256(b"hello").hexdigest()

Noetl = Callable[..., subprocess.CompletedProcess[str]]


def block(language: str) -> str:
    """The page's block in that language: there is one of each."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


#: A tool with a defect in its line 11, and one that says too little of itself.
FAULTY = """\
from noetl.tools.base import Tool, ToolConfig


class Faulty(Tool):
    kind = queue = "faulty"
    description = "Always fails."
    config_model = ToolConfig
    effects = "none"

    def run(self, call, config):
        return {}["missing"]


class Silent(Tool):
    def run(self, call, config):
        return None
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the wheel of the page's package holds, and with a package that is
    broken."""
    folder = tmp_path_factory.mktemp("third-party")
    source, target = folder / "source", folder / "installed"
    source.mkdir()
    (source / "pyproject.toml").write_text(block("toml"))
    (source / "noetl_checksum.py").write_text(block("python"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run([*pip, *build], check=True)
    wheel = next(folder.glob("noetl_checksum-1.0-*.whl"))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True)
    broken = target / "broken_tool-0.1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-tool\nVersion: 0.1\n")
    (broken / "entry_points.txt").write_text(
        "[noetl.tools]\nbroken = no_such_module:Tool\nfaulty = noetl_faulty:Faulty\nsilent = "
        "noetl_faulty:Silent\nunreadable = noetl_unreadable:Tool\n"
    )
    (target / "noetl_faulty.py").write_text(FAULTY)
    (target / "noetl_unreadable.py").write_text("import os\n\nos.no_such_thing\n")
    return target


@pytest.fixture(scope="module")
def _forked(installed: Path) -> Iterator[None]:
    """What is forked in this module finds both packages: its zygote was started so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(zygote.ADDRESS, os.environ[zygote.ADDRESS])
        patch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
        started = zygote.prepare()
        yield
        zygote.end(started)


@pytest.fixture
def noetl(_forked: None, tmp_path: Path) -> Noetl:
    """The command, in an environment that has both packages."""

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "NOETL_HOME": str(tmp_path / "home")}
        return zygote.run(["noetl", *argv], cwd=tmp_path, env=variables, capture_output=True, text=True)

    return run


@pytest.mark.acceptance
def test_a_playbook_runs_with_it(noetl: Noetl, tmp_path: Path) -> None:
    (tmp_path / "digest.yaml").write_text(block("yaml"))
    assert noetl("validate", "digest.yaml", "--strict").returncode == 0
    done = noetl("run", "digest.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == {"algorithm": "sha256", "hex": HELLO}


@pytest.mark.acceptance
def test_it_is_listed_explained_and_tried_like_any_other(noetl: Noetl) -> None:
    listed = {one["kind"]: one for one in json.loads(noetl("tool", "list", "--json").stdout)}
    assert listed["checksum"]["origin"] == "noetl-checksum 1.0"
    assert listed["checksum"]["queue"] == "checksum"
    shown = noetl("tool", "show", "checksum").stdout
    assert "What the digest is of. (text, required)" in shown
    assert "{kind: checksum, text:" in shown
    tried = noetl("tool", "test", "checksum", "--config", "text: hello")
    assert (tried.returncode, json.loads(tried.stdout)["hex"]) == (0, HELLO)
    refused = noetl("tool", "test", "checksum", "--config", "{text: hello, expect: x}")
    assert refused.returncode == 1
    assert f"The digest is {HELLO}" in refused.stderr


@pytest.mark.acceptance
@pytest.mark.full("one more stack")
def test_a_broken_one_takes_nobody_down(noetl: Noetl, tmp_path: Path) -> None:
    listed = {one["kind"]: one for one in json.loads(noetl("tool", "list", "--json").stdout)}
    assert "No module named 'no_such_module'" in listed["broken"]["description"]
    told = noetl("tool", "show", "broken")
    assert (told.returncode, "Traceback" in told.stderr) == (1, False)
    step = "{step: start, tool: {kind: broken}}"
    (tmp_path / "broken.yaml").write_text(f"metadata: {{path: x/broken}}\nworkflow: [{step}]\n")
    failed = json.loads(noetl("run", "broken.yaml", "--json").stdout)
    assert failed["status"] == "failed"
    assert "no_such_module" in failed["error"]["message"]
    assert noetl("tool", "test", "noop").returncode == 0


@pytest.mark.acceptance
def test_a_defect_of_a_plug_in_names_its_file_and_line_and_doctor_finds_those_that_do_not_load(
    noetl: Noetl, installed: Path
) -> None:
    failed = noetl("tool", "test", "faulty")
    assert failed.returncode == 1
    assert f"KeyError: 'missing' ({installed / 'noetl_faulty.py'}:11)" in failed.stderr

    doctor = noetl("doctor", "--json")
    assert doctor.returncode == 1
    (tools,) = [one for one in json.loads(doctor.stdout) if one["name"] == "tools"]
    assert tools["ok"] is False
    assert "'broken' cannot be loaded from no_such_module:Tool" in tools["detail"]
    assert f"({installed / 'noetl_unreadable.py'}:3)" in tools["detail"]
    assert "noetl_faulty:Silent does not say its kind, queue, description, config_model" in tools["detail"]
