"""Records what NoETL of 46fb24c does: see README.md. What is there is never written again."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from calls import Calls, called, key_of, parents
from noetl.tools.registry import kinds
from scenarios import ALL_KINDS, SCENARIOS, TOOLS, Scenario

import noetl.dsl
from noetl.dsl import compile_playbook
from noetl.net.codec import digest, to_json
from noetl.results import open_results
from noetl.store import migrate, open_store
from noetl.testing import Simulation, StillLeases
from noetl.usecases import catalog
from noetl.usecases.runtime import Limits
from noetl.usecases.work import Worker

HERE = Path(__file__).parent
#: The version whose code this is, as fixtures are called after it.
VERSION = sys.argv[1]

# --- interrupted repeats --------------------------------------------------------------------------


class Death(BaseException):
    """The worker is gone."""


@dataclass
class Run:
    """One execution of a scenario, with a database of its own. Its worker dies as call `dies_at`
    (from 0) begins, or it is left where it rests for the `rests_at`-th time (from 1)."""

    scenario: Scenario
    name: str
    folder: Path
    number: int
    dies_at: int | None = None
    rests_at: int | None = None

    def __post_init__(self) -> None:
        self.file = self.folder / f"{self.number}.sqlite"
        url = f"sqlite:///{self.file}"
        shutil.copy(self.folder / "empty.sqlite", self.file)
        self.calls: Calls = []
        self.begun = 0
        limits = Limits(**{"slice_s": 3600.0, **self.scenario.limits})
        text = self.scenario.head.replace("PATH", self.name) + self.scenario.body
        sim = Simulation(text, TOOLS, store=open_store(url), limits=limits, kinds=ALL_KINDS)
        sim.rt = replace(sim.rt, results=open_results(f"file://{self.folder}/results"))
        sim.leases = StillLeases(sim.rt)
        sim.worker = Worker(sim.rt, "simulated", sim.leases)
        # No two executions of all databases have one id.
        sim._entropy = self.number * 1000
        scripted = sim.tools.run

        def run(call: Any) -> Any:
            self.begun += 1
            if self.begun - 1 == self.dies_at:
                raise Death
            if call.kind != "noop":
                self.calls.append(called(call))
            return scripted(call)

        sim.tools.run = run
        for path, body in self.scenario.others.items():
            catalog.register(sim.rt, self.scenario.head.replace("PATH", path) + body)
        self.sim = sim
        self.id = sim.start()

    def interrupted(self) -> bool:
        """Whether it came to where it is to be left."""
        rests = 0
        try:
            while True:
                self.sim.settle()
                if self._ended():
                    return False
                rests += 1
                if rests == self.rests_at:
                    return True
                self.sim.pass_time(31)
        except Death:
            return True

    def goes_on(self) -> None:
        """To its end, with another worker."""
        self.dies_at = None
        self.sim.mailbox.messages.clear()
        while not self._ended():
            self.sim.pass_time(31)
            self.sim.settle()

    def _ended(self) -> bool:
        return self.sim.report(self.id).row.status != "running"

    def told(self) -> dict[str, Any]:
        report = self.sim.report(self.id)
        return json.loads(
            json.dumps(
                {
                    "status": report.row.status,
                    "result": report.result,
                    "ctx": report.ctx,
                    "error": report.error,
                    "steps": report.steps,
                }
            )
        )

    def tables(self) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
        """Name, columns and rows of each table that has any."""
        with closing(sqlite3.connect(self.file)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (name,) in names:
                cursor = connection.execute(f'SELECT * FROM "{name}"')
                columns = [one[0] for one in cursor.description]
                if name != "alembic_version" and (rows := cursor.fetchall()):
                    yield name, columns, rows

    def close(self) -> None:
        self.sim.rt.store.close()
        for file in self.folder.glob(f"{self.number}.sqlite*"):
            file.unlink()


def repeats() -> None:
    """Writes `repeats-<version>.sql.xz`, a database of executions that were interrupted before each
    of their calls and wherever they rested, and `repeats-<version>.json.xz`: how each ends, and
    which calls are still to be made."""
    target = HERE / f"repeats-{VERSION}.sql.xz"
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        migrate.upgrade(f"sqlite:///{folder}/empty.sqlite")
        shutil.copy(folder / "empty.sqlite", folder / "all.sqlite")
        scenarios, points, number = {}, [], 0
        with closing(sqlite3.connect(folder / "all.sqlite")) as merged:
            for name, scenario in SCENARIOS.items():
                whole = Run(scenario, name, folder, number := number + 1)
                whole.interrupted()
                scenarios[name] = {"told": whole.told(), "calls": grouped(whole, whole.calls)}
                calls = whole.begun
                whole.close()
                plan = [{"dies_at": at} for at in range(calls)] + [{"rests_at": at} for at in range(1, 100)]
                for way in plan:
                    run = Run(scenario, name, folder, number := number + 1, **way)
                    if not run.interrupted():
                        run.close()
                        break
                    tables, made = list(run.tables()), len(run.calls)
                    run.goes_on()
                    assert run.told() == scenarios[name]["told"], (name, way)
                    for table, columns, rows in tables:
                        ignore = "OR IGNORE " if table in ("net", "playbook") else ""
                        marks = ", ".join("?" * len(columns))
                        merged.executemany(f'INSERT {ignore}INTO "{table}" VALUES ({marks})', rows)
                    after = grouped(run, run.calls[made:])
                    points.append(
                        {"scenario": name, **way, "execution": run.id, "made": made, "after": after}
                    )
                    run.close()
                print(f"{name}: {calls} calls")
            merged.commit()
            text = "\n".join(merged.iterdump())
        results = {
            str(file.relative_to(folder / "results")): base64.b64encode(file.read_bytes()).decode()
            for file in sorted((folder / "results").rglob("*"))
            if file.is_file()
        }
        told = {"scenarios": scenarios, "points": points, "results": results}
    target.write_bytes(lzma.compress(text.encode(), preset=9))
    target.with_suffix("").with_suffix(".json.xz").write_bytes(
        lzma.compress(json.dumps(told).encode(), preset=9)
    )


def grouped(run: Run, calls: Calls) -> Calls:
    """Those of one family of executions, with what keys are made of in the place of ids and keys."""
    with closing(sqlite3.connect(run.file)) as connection:
        assert {parents(connection).get(call["execution"], run.id) for call in calls} <= {run.id}
    shown = [{**call, "occasion": occasion(call)} for call in calls]
    return [{k: v for k, v in call.items() if k not in ("execution", "key", "task")} for call in shown]


def occasion(call: dict[str, Any]) -> str:
    """What the key of a call names besides its place: the task, how often entered and repeated."""
    task = call["task"]
    turns = (f"{task}#{visit}.{repeat}" for visit in range(20) for repeat in range(20))
    return next(one for one in (task, *turns) if key_of(call, one) == call["key"])


# --- nets -----------------------------------------------------------------------------------------


def nets() -> None:
    """Writes `nets-<version>.json.gz`: digest → body, as tables hold them, of the nets of all
    playbooks that the version has in its tests and examples."""
    target = HERE / f"nets-{VERSION}.json.gz"
    if target.exists():
        return
    found = {}
    for text in documents(Path(noetl.dsl.__file__).parents[2]):
        net = compile_playbook(text, file="test.yaml", kinds=kinds()).net
        if net is not None:
            found[digest(net)] = to_json(net)
    text = json.dumps(found, sort_keys=True, ensure_ascii=False)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(found)} nets")


def documents(root: Path) -> Iterator[str]:
    """The playbooks of a checkout: its corpus in every dialect, those called, and the examples."""
    sys.path.insert(0, str(root / "tests"))
    from playbooks.corpus import cases
    from playbooks.running import head

    for case in cases():
        yield head("tests/test") + case.body
        for path, body in case.others:
            yield head(path) + body
    for file in sorted((root / "examples").rglob("*.yaml")):
        if not file.name.endswith(".test.yaml"):
            yield file.read_text(encoding="utf-8")
    for name, scenario in SCENARIOS.items():
        yield scenario.head.replace("PATH", name) + scenario.body


# --- the plug-in --------------------------------------------------------------------------------


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
    nets()
    repeats()
