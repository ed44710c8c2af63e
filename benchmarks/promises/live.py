"""Promises about servers: a stack on PostgreSQL and Redis, and `noetl server` alone on SQLite."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import requests

from benchmarks.promises import streams
from benchmarks.promises.model import Promise, elapsed
from benchmarks.promises.streams import PATIENCE_S, Streams
from benchmarks.servers import noetl_server, servers
from noetl import bootstrap
from noetl.config import Settings
from noetl.store.migrate import upgrade
from noetl.usecases import catalog
from noetl.usecases.ports import ENDED
from tests import httpd
from tests.acceptance.playbooks import BATCHED_LOOP, TWO_STEPS, head
from tests.acceptance.stack import Stack, worker
from tests.acceptance.test_cancelling import SLEEPER, begin, ended, marked
from tests.acceptance.test_client_view import GATED, SHORT, Streamed
from tests.waiting import until

#: Streams that are open beside a start, and starts of one sample.
STREAMS, STARTS = 300, 15
#: Seconds that are granted to a start without them, besides those that it takes.
GRACE_S = 0.005
#: Iterations that wait for a signal, those that call a server, and the calls that workers are at.
WAITS, CALLS, AT_WORK = 1_000, 1_000, 100
#: Iterations of the long loop, and executions of two steps that are measured without and with it.
LONG, ALONE, BESIDE = 10_000, 7, 9
#: Lines that a task prints, one each third of a second.
LINES = 6

MANY = head("many") + (
    'workload: {url: ""}\n'
    "workflow:\n"
    "  - {step: start, next: [waits, calls]}\n"
    "  - step: waits\n"
    f'    loop: {{in: "{{{{ range({WAITS}) | list }}}}", iterator: n, '
    f"spec: {{mode: parallel, max_in_flight: {WAITS}}}}}\n"
    '    tool: {kind: wait, signal: {name: never, match: {n: "{{ n }}"}}}\n'
    "  - step: calls\n"
    f'    loop: {{in: "{{{{ range({CALLS}) | list }}}}", iterator: n, '
    f"spec: {{mode: parallel, max_in_flight: {CALLS}}}}}\n"
    '    tool: {kind: http, url: "{{ workload.url }}/hangs", spec: {timeout: 3600}}\n'
)
PRINTING = (
    head("printing")
    + f"""
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import time
        for _ in range({LINES}):
            print(time.time(), flush=True)
            time.sleep(1 / 3)
"""
)


@contextlib.contextmanager
def promises() -> Iterator[Sequence[Promise]]:
    """Those about servers, as long as these run. Raises services.Missing and NotDurable."""
    with (
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder,
        _stack(Path(folder)) as stack,
        _alone(Path(folder, "alone")) as (alone, url),
        _silent() as silent,
    ):
        here = Streams(stack.rt, stack.database, stack.api)
        # A server learns that a client has left its stream when it writes to it: those who take all
        # places come before those who leave.
        yield [
            *_of_server(stack, url),
            *streams.promises(here, "PostgreSQL"),
            *streams.promises(alone, "SQLite"),
            *_of_stack(stack, silent),
        ]


def _of_server(stack: Stack, url: str) -> list[Promise]:
    beside = f"a start over HTTP beside {STREAMS} open streams, to one without them and {GRACE_S * 1000:g} ms"
    return [
        Promise("start beside streams", beside, 2.0, "×", partial(start_beside_streams, stack)),
        Promise(
            "bad bodies", "a request whose body is bad is refused", 2.0, "s", partial(refuse_bodies, url)
        ),
    ]


def _of_stack(stack: Stack, silent: httpd.Server) -> list[Promise]:
    beside = "an execution of two steps beside a long loop, to one alone"
    many = f"from a cancellation until an execution of {WAITS + CALLS:,} iterations on their way has ended"
    gone = "from a cancellation until no process of what it was at is left"
    lines = "from when a task prints a line until it can be read"
    return [
        Promise("steps beside a loop", beside, 3.0, "×", partial(run_beside_loop, stack)),
        Promise("cancelled iterations", many, 5.0, "s", partial(cancel_many, stack, silent)),
        Promise("cancelled process", gone, 2.0, "s", partial(cancel_process, stack)),
        Promise("printed lines", lines, 1.0, "s", partial(read_lines, stack)),
    ]


# --- servers -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _stack(home: Path) -> Iterator[Stack]:
    """What Procfile has, with many threads for calls, each part started as users start it."""
    parts = ("scheduler", "code", "sweeper", "api")
    with servers() as ours:
        upgrade(ours.database_url)
        with Stack(home / "stack", ours.database_url, f"{ours.redis_url}/0", parts, real=True) as stack:
            stack.launch("wide", worker("http,default", "threads", AT_WORK, "wide"), real=True)
            stack.await_ready("wide")
            yield stack


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[tuple[Streams, str]]:
    """`noetl server` on SQLite, where nobody is notified: what is heard there, and its address."""
    settings = Settings(home=home)
    settings.make_home()
    upgrade(settings.database)
    with contextlib.ExitStack() as running:
        rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings))
        running.callback(bootstrap.close, rt)
        url = running.enter_context(noetl_server(settings))
        yield Streams(rt, settings.database, url), url


@contextlib.contextmanager
def _silent() -> Iterator[httpd.Server]:
    """A web server that answers nobody."""
    server = httpd.started()

    def hang(_handler: httpd.Handler) -> None:
        server.stopping.wait()

    server.routes["/hangs"] = hang
    try:
        yield server
    finally:
        httpd.stopped(server)


# --- measurements --------------------------------------------------------------------------------


def refuse_bodies(url: str) -> list[float]:
    """The longest of them."""
    bodies: list[Any] = [
        b" " * 10_000_000,
        iter([b" " * 100_000] * 100),
        iter([b"[" * 100_000] * 5),
        b"nonsense",
        b'{"path": "x\\u0000y"}',
    ]
    return [max(elapsed(partial(_refuse, url, body)) for body in bodies)]


def _refuse(url: str, body: Any) -> None:
    headers = {"Content-Type": "application/json"}
    answer = requests.post(f"{url}/api/executions", data=body, headers=headers, timeout=PATIENCE_S)
    if not 400 <= answer.status_code < 500:
        raise RuntimeError(f"A bad body was answered with {answer.status_code}: {answer.text[:300]}")


def start_beside_streams(stack: Stack) -> list[float]:
    catalog.register(stack.rt, SHORT)
    waits = stack.begin(GATED)
    until(lambda: stack.row(waits).status == "waiting", "the gate to be reached")
    without = _median_start(stack)
    with contextlib.ExitStack() as opened:
        for _ in range(STREAMS):
            stream = Streamed(urlsplit(stack.api).port or 0, waits)
            opened.callback(stream.close)
            if stream.answer.status != 200:
                raise RuntimeError(f"A stream was refused: {stream.answer.read()[:300]!r}")
        beside = _median_start(stack)
        # Its end is that of the streams, and frees their places.
        stack.post(f"executions/{waits}/cancel")
        stack.wait([waits])
    return [beside / (without + GRACE_S)]


def _median_start(stack: Stack) -> float:
    return median(elapsed(partial(_start, f"{stack.api}/api/executions")) for _ in range(STARTS))


def _start(url: str) -> None:
    requests.post(url, json={"path": "acceptance/short"}, timeout=PATIENCE_S).raise_for_status()


def run_beside_loop(stack: Stack) -> list[float]:
    alone = _median_of_two_steps(stack, ALONE)
    loop = stack.begin(BATCHED_LOOP, {"items": LONG, "width": 8})
    until(lambda: stack.ended_iterations(loop) > 100, "the loop to be under way")
    beside = _median_of_two_steps(stack, BESIDE)
    if stack.row(loop).status in ENDED:
        raise RuntimeError("The loop was over before two steps beside it were measured.")
    stack.post(f"executions/{loop}/cancel")
    stack.wait([loop])
    return [beside / alone]


def _median_of_two_steps(stack: Stack, times: int) -> float:
    """Milliseconds from the start to the end of the execution, as it says itself."""
    return median(stack.run(TWO_STEPS).duration_ms for _ in range(times))


def cancel_many(stack: Stack, silent: httpd.Server) -> list[float]:
    silent.seen.clear()
    execution = stack.begin(MANY, {"url": silent.url})
    waiting = "SELECT count(*) FROM event WHERE execution_id = :id AND type = 'loop.iteration.suspended'"
    until(lambda: stack.sql(waiting, id=int(execution))[0][0] == WAITS, "all to wait")
    until(lambda: len(silent.seen) == AT_WORK, "all threads to be at a call")
    began = time.perf_counter()
    stack.post(f"executions/{execution}/cancel")
    report = ended(stack, execution)
    took = time.perf_counter() - began
    if report["status"] != "cancelled":
        raise RuntimeError(f"What was cancelled is {report['status']}.")
    held = "SELECT 1 FROM command WHERE execution_id = :id AND state <> 'closed'"
    until(lambda: not stack.sql(held, id=int(execution)), "no worker to hold anything")
    return [took]


def cancel_process(stack: Stack) -> list[float]:
    """From the answer until nothing of a shell's command and its child runs."""
    execution, mark = begin(stack, SLEEPER)
    stack.post(f"executions/{execution}/cancel")
    took = elapsed(lambda: until(lambda: not marked(mark), "its processes to be gone"))
    stack.wait([execution])
    return [took]


def read_lines(stack: Stack) -> list[float]:
    """The latest of them, in the log stream."""
    late = []
    url = f"{stack.api}/api/executions/{stack.begin(PRINTING)}/logs"
    headers = {"Accept": "text/event-stream"}
    with requests.get(url, headers=headers, stream=True, timeout=PATIENCE_S) as answer:
        for line in answer.iter_lines(chunk_size=1):
            if line.startswith(b"data: "):
                now, text = time.time(), json.loads(line[6:]).get("text", "")
                late += [now - float(printed) for printed in text.splitlines()]
    if len(late) != LINES:
        raise RuntimeError(f"{LINES} lines were printed, and {len(late)} were read.")
    return [max(late)]
