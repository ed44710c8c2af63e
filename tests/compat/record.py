"""Records what NoETL of 46fb24c does: see README.md. What is there is never written again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def plugin() -> None:
    """Writes `plugin/expected.json`: what `validate` and `run` say of the plug-in's playbooks."""
    target = HERE / "plugin/expected.json"
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = shutil.copytree(HERE / "plugin", work / "source")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        offline = ["--no-deps", "--no-build-isolation", "--target", str(work / "installed")]
        subprocess.run([*pip, *offline, str(source)], check=True)
        secrets = work / "secrets"
        secrets.mkdir()
        (secrets / "seal.secret").write_text('{"versions": [{"key": "old"}, {"key": "k"}]}')
        (secrets / "wax.secret").write_text('{"versions": [{"colour": "red"}, {"colour": "blue"}]}')
        environment = {
            **os.environ,
            "PYTHONPATH": str(work / "installed"),
            "NOETL_HOME": str(work / "home"),
            "NOETL_SECRETS_DIR": str(secrets),
        }

        def noetl(*argv: str) -> str:
            command = [sys.executable, "-m", "noetl.cli", *argv]
            done = subprocess.run(
                command,
                cwd=source / "playbooks",
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            return done.stdout

        report = json.loads(noetl("run", "every.yaml", "--json"))
        # `rows` is long, and `hand` a reference that names the execution.
        report["steps"] = {k: v for k, v in report["steps"].items() if k not in ("rows", "hand")}
        kept = {part: report[part] for part in ("status", "result", "ctx", "steps")}
        # Where, how bad and which code; the words may change.
        faults = [line.split("]", 1)[0] + "]" for line in noetl("validate", "wrong.yaml").splitlines()[:-1]]
        expected = {"run": kept, "validate": faults}
        target.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    plugin()
