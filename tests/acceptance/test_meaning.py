"""What ends green is right, and what is wrong is red: seen with an installed NoETL, in an empty
directory, against a service that answers over HTTP."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from .packaging import Environment, build_wheel, copy_tree

pytestmark = pytest.mark.acceptance

#: A classic loop whose sink writes what each of its iterations has come to.
SINKS = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: sinks, path: meaning/sinks}
workload: {readings: [{sensor: a, celsius: 3}, {sensor: b, celsius: 5}]}
workflow:
  - step: start
    next: [{step: table}]
  - step: table
    tool: {kind: sqlite, database: readings.db, command: "create table readings (sensor text, kelvin int)"}
    next: [{step: convert}]
  - step: convert
    loop: {in: "{{ workload.readings }}", iterator: reading}
    tool:
      kind: python
      args: {reading: "{{ reading }}"}
      code: |
        result = {"sensor": reading["sensor"], "kelvin": reading["celsius"] + 273}
    case:
      - when: "{{ event.name == 'step.exit' and response is defined }}"
        then: {sink: {tool: {kind: sqlite, database: readings.db, table: readings, data: "{{ response }}"}}}
    next: [{step: read}]
  - step: read
    tool: {kind: sqlite, database: readings.db, command: "select * from readings order by sensor"}
    next: [{step: end}]
  - step: end
    tool: {kind: noop, args: {rows: "{{ read.rows }}"}}
"""

#: An error that no rule of its policy takes.
REFUSED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: refused, path: meaning/refused}
workflow:
  - step: start
    tool:
      kind: http
      url: URL/secret
      spec:
        policy:
          rules:
            - {when: "{{ outcome.http.status >= 500 }}", then: {do: retry, attempts: 2}}
            - {when: "{{ outcome.status == 'ok' }}", then: {do: continue}}
    next: end
  - step: end
    tool: {kind: noop, input: {code: "{{ start.status_code }}"}}
"""

#: A job that is asked for until it is done; `attempts` is how often.
POLL = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: poll, path: meaning/poll-ATTEMPTS}
workflow:
  - step: start
    tool: {kind: http, url: "URL/jobs/ATTEMPTS"}
    retry:
      - when: "{{ response.data.state != 'DONE' }}"
        then: {max_attempts: ATTEMPTS, delay: 0.01}
    next: [{step: end}]
  - step: end
    tool: {kind: noop, args: {state: "{{ start.data.state }}"}}
"""


class Jobs(BaseHTTPRequestHandler):
    """`/jobs/N` is done the third time that it is asked for; `/secret` is refused."""

    asked: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        count = self.asked[self.path] = self.asked.get(self.path, 0) + 1
        body = json.dumps({"state": "DONE" if count > 2 else "RUNNING"}).encode()
        self.send_response(401 if self.path == "/secret" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """The output of tests is theirs."""


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Jobs) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder: Path = tmp_path_factory.mktemp("meaning")
    made = Environment.make(folder / "environment")
    made.install("--no-deps", str(build_wheel(copy_tree(folder / "clone"), folder / "wheel")))
    return made


def run(environment: Environment, name: str, text: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of `noetl run`."""
    (environment.work / f"{name}.yaml").write_text(text)
    done: subprocess.CompletedProcess[str] = environment.run(
        "noetl", "run", f"{name}.yaml", "--json", check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_each_iteration_of_a_classic_loop_leaves_its_row(environment: Environment) -> None:
    code, report = run(environment, "sinks", SINKS)
    rows = [{"sensor": "a", "kelvin": 276}, {"sensor": "b", "kelvin": 278}]
    assert (code, report["status"], report["result"]) == (0, "completed", {"rows": rows})


def test_an_answer_that_no_rule_takes_is_red(environment: Environment, service: str) -> None:
    code, report = run(environment, "refused", REFUSED.replace("URL", service))
    assert (code, report["status"]) == (1, "failed")
    assert "401" in report["error"]["message"]
    assert Jobs.asked["/secret"] == 1, "it is not worth another attempt"


@pytest.mark.parametrize(("attempts", "status"), [(5, "completed"), (2, "failed")])
def test_a_job_is_polled_until_it_is_done_or_fails(
    environment: Environment, service: str, attempts: int, status: str
) -> None:
    text = POLL.replace("ATTEMPTS", str(attempts)).replace("URL", service)
    code, report = run(environment, f"poll{attempts}", text)
    assert (code, report["status"]) == (0 if status == "completed" else 1, status)
    assert Jobs.asked[f"/jobs/{attempts}"] == min(attempts, 3)
