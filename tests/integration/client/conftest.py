"""A real server in this process: the API over an engine of threads, on a port of loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from noetl import bootstrap
from noetl.api.app import create_app
from noetl.config import Settings

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: double, path: client/double}
workload: {n: 2}
workflow:
  - {step: double, tool: {kind: noop, input: {double: "{{ n * 2 }}"}}}
"""

GATE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gate, path: client/gate}
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
"""

FAILING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: failing, path: client/failing}
workflow:
  - {step: fail, tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}}
"""

TYPED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: typed, path: client/typed}
inputs:
  zip: {type: string, required: true}
  count: {type: integer, max: 9}
  token: {type: string, secret: true}
workflow:
  - step: start
    tool:
      kind: python
      input: {zip: "{{ zip }}", count: "{{ count }}", token: "{{ token }}"}
      code: "result = [zip, count, len(token)]"
"""

PRINTING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: printing, path: client/printing}
workflow:
  - step: talk
    tool: {kind: python, code: "for n in range(30): print('line', n)\\nresult = list(range(2000))"}
    next: whisper
  - step: whisper
    tool: {kind: python, code: "print('behind')"}
"""


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        pass


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The URL of a server with an engine of its own."""
    with bootstrap.local(settings) as rt:
        app = create_app(rt, settings)
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(Settings(home=tmp_path_factory.mktemp("home"), inline_bytes=2000)) as address:
        yield address
