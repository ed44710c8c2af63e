"""Promises about what is typed, each command in a process of its own, as users start it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.promises.model import Promise, elapsed
from benchmarks.servers import until
from tests.acceptance.playbooks import head
from tests.acceptance.stack import environment
from tests.gates import Gate

#: Tests of the playbook on trial.
TRIALS = 100

_BOOK = (
    head("tried")
    + """
workload: {url: "https://shop.example.com"}
workflow:
  - step: start
    tool:
      kind: http
      url: "{{ workload.url }}"
      spec: {policy: {rules: [{when: "{{ error.retryable }}", then: {do: retry, attempts: 3, delay: 3600}}]}}
    next: {arcs: [{step: late, when: "{{ start.data.days > 30 }}"}, {step: end}]}
  - step: late
    tool: {kind: python, input: {days: "{{ start.data.days }}"}, code: "result = days - 30"}
    set: {ctx.over: "{{ result }}"}
    next: end
  - step: end
    tool: {kind: noop, input: {over: "{{ ctx.over }}"}}
"""
)
_TEST = "- name: t{n}\n  stand_ins: {{start: {{result: {{data: {{days: {days}}}}}}}}}\n"

_GATED = head("interrupted") + (
    "workflow:\n  - step: start\n"
    "    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}\n"
    '    tool:\n      kind: python\n      input: {n: "{{ iter.n }}"}\n      code: |\n'
)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        yield Path(folder)


def _run(home: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "noetl", *words]
    variables = environment({"home": home, **settings})
    return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)


def try_playbook() -> list[float]:
    with _folder() as folder:
        file = folder / "book.test.yaml"
        (folder / "book.yaml").write_text(_BOOK)
        file.write_text("tests:\n" + "".join(_TEST.format(n=n, days=n % 30) for n in range(TRIALS)))
        return [elapsed(partial(_try, folder / "home", file))]


def _try(home: Path, file: Path) -> None:
    ended = _run(home, "test", str(file))
    said = ended.stdout + ended.stderr
    if ended.returncode != 0 or f"{TRIALS} ok" not in said:
        raise RuntimeError(f"The tests went wrong: {said[-1000:]}")


def interrupt_twice() -> list[float]:
    """From the second Ctrl-C until the process has ended, while three tasks are at work."""
    with _folder() as folder:
        gate, file = Gate(folder / "gate"), folder / "interrupted.yaml"
        file.write_text(_GATED + "".join(f"        {line}\n" for line in gate.python("n").splitlines()))
        argv = [sys.executable, "-m", "noetl", "run", str(file)]
        variables = environment({"home": folder / "home"})
        with subprocess.Popen(argv, env=variables, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            until("three tasks", lambda: gate.arrived() == 3)
            process.send_signal(signal.SIGINT)
            if not any("Cancelling" in line for line in process.stderr):
                raise RuntimeError("The run ended without a word on the first Ctrl-C.")
            process.send_signal(signal.SIGINT)
            return [elapsed(process.communicate)]


def meet_silence() -> list[float]:
    """Brokers that take connections and never answer: the longest that `noetl up` needs to say
    so."""
    with socket.create_server(("127.0.0.1", 0)) as silent, _folder() as folder:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        urls = (f"redis://{place}/0", f"amqp://me:you@{place}//")
        return [max(elapsed(partial(_meet, folder / "home", url)) for url in urls)]


def _meet(home: Path, url: str) -> None:
    ended = _run(home, "up", "--port", "0", broker_url=url)
    if ended.returncode != 1 or "The broker does not answer" not in ended.stderr:
        raise RuntimeError(f"Of {url} was said: {ended.stderr}")


PROMISES = (
    Promise("trials", f"`noetl test` has run {TRIALS} tests of a playbook", 10.0, "s", try_playbook),
    Promise("second Ctrl-C", "from the second Ctrl-C until `noetl run` has ended", 3.0, "s", interrupt_twice),
    Promise("silent broker", "`noetl up` says that its broker does not answer", 15.0, "s", meet_silence),
)
