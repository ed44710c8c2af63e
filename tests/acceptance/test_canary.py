"""A canary: secrets that are pushed through every tool, failure and log are found nowhere but
inside the calls."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
import redis
import requests
from sqlalchemy import make_url

from noetl.usecases import catalog, credentials
from tests import httpd, services
from tests.ports import free_port
from tests.waiting import GUARD_S, until

from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: One for each way in which a secret comes: with letters that JSON, addresses, SQL and shells write
#: otherwise.
CANARIES = {
    "password": "Kanari-1/pw+\"q'8 Zx",
    "bearer": "Kanari-2-bearer-81Zq0",
    "basic": "Kanari-3 basic&81?Zq0",
    "key": "Kanari-4-key=81+Zq0/",
    "generic": "Kanari-5\\gen%eric",
    "variable": "Kanari-6-variable-x9",
    "file": "Kanari-7-file-x9Q",
    "access": "Kanari-8-access-token",
    "client": "Kanari-9-client-secret",
    "input": 'Kanari-10-input+"81 Zq/',
}


def forms(secret: str) -> set[str]:
    """How a secret may stand in a text; of base64 the part that is the same wherever it stands."""
    encoded = set()
    for before in range(3):
        text = base64.b64encode(b"a" * before + secret.encode()).decode().rstrip("=")
        encoded.add(text[(before * 8 + 5) // 6 : (before + len(secret.encode())) * 8 // 6])
    in_json = json.dumps(secret)[1:-1]
    return {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), in_json, *encoded}


FORMS = {name: {one.encode() for one in forms(secret)} for name, secret in CANARIES.items()}


def found_in(data: bytes) -> set[str]:
    """The names of the canaries that `data` tells."""
    return {name for name, spelled in FORMS.items() if any(one in data for one in spelled)}


KEYCHAIN = """
keychain:
  - {name: db, kind: credential, credential: canary_pg}
  - {name: any, kind: credential, credential: canary_generic}
  - {name: var, kind: secret, provider: env, path: VARIABLE}
  - {name: mounted, kind: secret, provider: file, path: mounted}
  - {name: grant, kind: token, auth: canary_client}
"""

CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: canary_child, path: acceptance/canary_child}
workload: {given: "", text: ""}
workflow:
  - step: start
    tool:
      kind: python
      input: {given: "{{ given }}", text: "{{ text }}"}
      code: |
        result = {"given": given, "text": text}
    next: fails
  - step: fails
    tool: {kind: python, input: {given: "{{ workload.given }}"}, code: "raise ValueError('child ' + given)"}
"""


def playbook(web: str) -> str:
    """Every step goes on whatever became of the one before."""
    steps = "".join(_step(number, body) for number, body in enumerate(BODIES))
    return f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: canary, path: acceptance/canary}}
{KEYCHAIN}
inputs: {{given: {{type: string, secret: true, pattern: "^Kanari"}}}}
workload:
  web: {web}
  all: {{db: "{{{{ keychain.db }}}}", any: "{{{{ keychain.any.deep.secret }}}}", var: "{{{{ keychain.var }}}}"}}
workflow:
{steps}  - {{step: s{len(BODIES)}, tool: {{kind: noop}}}}
"""


def _step(number: int, body: str) -> str:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    follows = f"s{number + 1}"
    return (
        f"  - step: s{number}\n{lines}\n    next:\n      spec: {{mode: exclusive}}\n      arcs:\n"
        f"        - {{step: {follows}, when: \"{{{{ event.name == 'step.exit' }}}}\"}}\n"
    )


BODIES = (
    # --- python: results, output, tracebacks, whole mappings
    """
input: {pw: "{{ keychain.db.password }}", gen: "{{ keychain.any.deep.secret }}", var: "{{ keychain.var }}",
        file: "{{ keychain.mounted }}", whole: "{{ keychain.db }}", mixed: "Bearer {{ keychain.grant.token }}"}
set: {ctx.secret: "{{ keychain.any.deep.secret }}", ctx.header: "Bearer {{ keychain.grant.token }}"}
tool:
  kind: python
  code: |
    import base64, json, sys, urllib.parse
    print(pw, gen); print(var, file, file=sys.stderr)
    assert pw.startswith("Kanari-1") and mixed.startswith("Bearer Kanari-8") and whole["password"] == pw
    result = {"plain": [pw, gen, var, file, mixed], "whole": whole, "key": {pw: 1}, "big": "x" * 5000 + gen,
              "base64": base64.b64encode(("user:" + pw).encode()).decode(),
              "quoted": urllib.parse.quote(gen), "json": json.dumps([pw])}
""",
    """
tool:
  kind: python
  input: {pw: "{{ keychain.db.password }}"}
  code: |
    import sys
    sys.stderr.write("before " + pw)
    raise RuntimeError(f"no such user: {pw}")
""",
    "tool: {kind: python, input: {s: '{{ ctx.secret }}'}, code: 'result = context[\"ctx\"]; print(s)'}",
    # --- shell
    """
tool:
  kind: shell
  env: {PW: "{{ keychain.db.password }}", MIXED: "{{ ctx.header }}"}
  command: 'echo "$PW $MIXED"; printf %s "$PW" | base64; echo "$PW" >&2; exit 3'
""",
    "tool: {kind: shell, argv: [echo, '{{ keychain.var }}', 'x-{{ keychain.mounted }}-x']}",
    "tool: {kind: shell, command: 'cat; exit 1', stdin: '{{ keychain.any | tojson }}'}",
    # --- http: echoed headers, addresses, bodies, errors; credentials of each type
    """
tool:
  kind: http
  method: POST
  url: "{{ web }}/echo?key={{ keychain.any.deep.secret | urlencode }}"
  headers: {authorization: "{{ ctx.header }}", x-var: "{{ keychain.var }}"}
  json: {password: "{{ keychain.db.password }}", note: "it is {{ keychain.mounted }}"}
""",
    """
tool:
  kind: http
  method: POST
  url: "{{ web }}/broken"
  headers: {x-var: "{{ keychain.var }}"}
  body: '{"password": {{ keychain.db.password | tojson }}}'
  spec: {policy: {rules: [{when: "{{ keychain.var is defined and outcome.status == 'error' }}",
                           then: {do: retry, attempts: 2, delay: 0.01}}]}}
""",
    "tool: {kind: http, url: '{{ web }}/echo', auth: canary_bearer}",
    "tool: {kind: http, url: '{{ web }}/broken', auth: canary_basic}",
    "tool: {kind: http, url: '{{ web }}/echo', auth: canary_key}",
    "tool: {kind: http, url: '{{ web }}/broken', auth: '{{ keychain.grant }}'}",
    "tool: {kind: http, url: '{{ web }}/echo', auth: canary_client}",
    "tool: {kind: http, url: 'http://127.0.0.1:9/{{ keychain.var }}'}",
    # --- SQL: parameters, errors that quote values, rows, wrong passwords
    """
tool: {kind: postgres, auth: "{{ keychain.db }}", command: "select :pw as pw, :g as g",
       params: {pw: "{{ keychain.db.password }}", g: "{{ keychain.any.deep.secret }}"}}
""",
    """
tool: {kind: postgres, auth: canary_pg, command: "select cast(:pw as integer)",
       params: {pw: "{{ keychain.db.password }}"}}
""",
    "tool: {kind: postgres, auth: canary_pg, command: \"do $$ begin raise notice '%', '{{ keychain.var "
    "}}'; end $$\"}",
    "tool: {kind: postgres, host: 127.0.0.1, port: 9, user: u, password: '{{ keychain.var }}', command: "
    "select 1}",
    """
spec: {queue: default}
tool: {kind: sqlite, database: ":memory:", command: "select :s as s", params: {s: "{{ keychain.any.deep.secret }}"}}
""",
    """
spec: {queue: default}
tool: {kind: sqlite, database: ":memory:", command: "select * from '{{ keychain.var }}'"}
""",
    "tool: {kind: duckdb, command: 'select $1 as s', params: ['{{ keychain.any.deep.secret }}']}",
    "tool: {kind: duckdb, command: \"select cast('{{ keychain.var }}' as integer)\"}",
    # --- calls, loops, names, secrets that are handed on
    """
tool: {kind: playbook, path: acceptance/canary_child,
       input: {given: "{{ keychain.var }}", text: "a {{ keychain.mounted }} b"}}
""",
    """
loop: {in: ["{{ keychain.var }}", "{{ ctx.secret }}"], iterator: one, spec: {mode: parallel, max_in_flight: 2,
       policy: {failure: {mode: best_effort}}}}
tool:
  kind: python
  input: {one: "{{ iter.one }}"}
  code: |
    print(one)
    raise KeyError(one)
""",
    """
loop: {in: "{{ [workload.all, workload.all] }}", iterator: one}
tool: {kind: noop, input: {one: "{{ iter.one.any }}", var: "{{ iter.one.var }}"}}
""",
    """
tool:
  - {name: find, kind: secrets, provider: env, path: VARIABLE}
  - {name: use, kind: shell, command: "echo {{ find }}; exit 1"}
""",
    "tool: {kind: python, input: {s: '{{ keychain.nosuch_field_here }}'}, code: result = 1}".replace(
        "nosuch_field_here", "any.nosuch"
    ),
    "tool: {kind: noop, input: {s: '{{ keychain.var == 1 }}'}}",
    # --- what was given at the start
    """
tool:
  kind: http
  method: POST
  url: "{{ web }}/echo?key={{ given | urlencode }}"
  headers: {x-var: "{{ workload.given }}"}
  json: {all: "{{ workload }}", note: "it is {{ given }}"}
""",
    """
tool:
  kind: python
  input: {given: "{{ given }}"}
  code: |
    print(given)
    raise ValueError(given)
""",
    "tool: {kind: playbook, path: acceptance/canary_child, input: {given: '{{ given }}', text: 'a {{ given }}'}}",
)


@pytest.fixture
def web() -> Iterator[httpd.Server]:
    """Answers with all that it was sent, and issues tokens."""
    server = httpd.started()

    def told(handler: httpd.Handler) -> dict[str, object]:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        basic = headers.get("authorization", "").removeprefix("Basic ")
        decoded = (
            base64.b64decode(basic).decode() if headers.get("authorization", "").startswith("Basic ") else ""
        )
        return {"path": handler.path, "headers": headers, "body": handler.body.decode(), "basic": decoded}

    server.routes = {
        "/echo": lambda handler: handler.json(told(handler), x_echo=handler.headers.get("x-var") or "-"),
        "/broken": lambda handler: handler.json(told(handler), 500),
        "/token": lambda handler: handler.json({"access_token": CANARIES["access"], "expires_in": 600}),
    }
    yield server
    httpd.stopped(server)


@pytest.fixture(scope="module")
def canary_stack(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    redis_server: str,
) -> Iterator[Stack]:
    """Everything that runs in production, as talkative as it can be; small results are kept outside
    of the log."""
    folder = tmp_path_factory.mktemp("canary")
    mounted = folder / "mounted"
    mounted.mkdir()
    (mounted / "mounted").write_text(CANARIES["file"] + "\n")
    (mounted / "mounted").chmod(0o600)
    settings = {
        "secrets_env_prefix": "CANARY_",
        "secrets_dir": mounted,
        "log_level": "DEBUG",
        "inline_bytes": 200,
    }
    url, broker = postgres_server.create(postgres_template), f"{redis_server}/12"
    with redis.Redis.from_url(broker) as client:
        client.flushdb()
    port = free_port()
    parts = ("scheduler", "code", "io", "sweeper", "api")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY_VARIABLE", CANARIES["variable"])
        with Stack(folder / "home", url, broker, parts, settings) as running:
            flower = ["celery", "-A", "noetl", "flower", f"--port={port}", "--address=127.0.0.1"]
            running.launch("flower", flower, FLOWER_UNAUTHENTICATED_API="true")
            running.flower = f"http://127.0.0.1:{port}"
            yield running
    postgres_server.drop(url)


def keep_canaries(stack: Stack, web: str) -> None:
    place = make_url(stack.database)
    # The server trusts whoever comes from this machine: any password will do.
    pg = {"host": place.host, "port": place.port, "user": place.username, "database": place.database}
    pg = {name: value for name, value in {**pg, **place.query}.items() if value is not None}
    kept = {
        "canary_pg": ("postgres", {**pg, "password": CANARIES["password"]}),
        "canary_bearer": ("bearer", {"token": CANARIES["bearer"]}),
        "canary_basic": ("basic", {"username": "ann", "password": CANARIES["basic"]}),
        "canary_key": ("api_key", {"key": CANARIES["key"], "in": "query", "name": "k"}),
        "canary_generic": ("generic", {"deep": {"secret": CANARIES["generic"]}}),
        "canary_client": (
            "oauth2",
            {"token_url": f"{web}/token", "client_id": "noetl", "client_secret": CANARIES["client"]},
        ),
    }
    for name, (type, data) in kept.items():
        credentials.save(stack.rt, name, type, data)


def places(stack: Stack, executions: list[str]) -> Iterator[tuple[str, bytes]]:
    """Everything that a secret could have got to, with how the place is called."""
    for (table,) in stack.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'"):
        for (row,) in stack.sql(f'SELECT t::text FROM "{table}" t'):
            # PostgreSQL doubles quotes and backslashes in the text of a row.
            yield f"table {table}", row.encode()
            yield f"table {table}", row.replace('""', '"').replace("\\\\", "\\").encode()
    with redis.Redis.from_url(stack.broker) as client:
        for key in client.scan_iter():
            yield f"redis {key!r}", key + (client.dump(key) or b"")
            yield f"redis {key!r}", repr(_plain(client, key)).encode()
    for path in (one for one in stack.home.rglob("*") if one.is_file() and one.name != "secret.key"):
        data = path.read_bytes()
        yield f"file {path.relative_to(stack.home)}", data
        if data[:2] == b"\x1f\x8b":
            yield f"file {path.relative_to(stack.home)}", gzip.decompress(data)
    for execution in executions:
        for route in ("", "/events?limit=500", "/logs?limit=1000", "/state", "/result", "/graph"):
            yield (
                f"api {route}",
                requests.get(f"{stack.api}/api/executions/{execution}{route}", timeout=GUARD_S).content,
            )
    for route in ("credentials", "catalog", "executions"):
        yield f"api /{route}", requests.get(f"{stack.api}/api/{route}", timeout=GUARD_S).content
    for route in ("tasks?limit=1000", "workers"):
        yield f"flower /{route}", requests.get(f"{stack.flower}/api/{route}", timeout=GUARD_S).content


def _answers(url: str) -> bool:
    with contextlib.suppress(requests.RequestException):
        return requests.get(url, timeout=GUARD_S).ok
    return False


def _plain(client: redis.Redis, key: bytes) -> object:
    match client.type(key):
        case b"string":
            return client.get(key)
        case b"list":
            return client.lrange(key, 0, -1)
        case b"hash":
            return client.hgetall(key)
        case b"set":
            return client.smembers(key)
        case _:
            return client.zrange(key, 0, -1)


def test_secrets_go_through_every_tool_and_are_found_nowhere(canary_stack: Stack, web: httpd.Server) -> None:
    stack = canary_stack
    keep_canaries(stack, web.url)
    catalog.register(stack.rt, CHILD)
    until(lambda: _answers(f"{stack.flower}/api/workers?refresh=1"), "Flower")
    execution = stack.begin(playbook(web.url), {"given": CANARIES["input"]})
    stack.wait([execution])

    # It was no playbook of locked doors: the secrets came to whom they were sent.
    assert stack.row(execution).status == "completed", stack.describe([execution])
    heard = b"".join(
        json.dumps({**one, "body": one["body"].decode()}).encode() + one["body"] for one in web.seen
    )
    assert found_in(heard) >= {
        "password",
        "bearer",
        "basic",
        "key",
        "generic",
        "variable",
        "file",
        "access",
        "input",
    }
    ended = dict(
        stack.sql(
            "SELECT step, type FROM event WHERE execution_id = :id AND type IN ('step.done', 'step.failed')",
            id=int(execution),
        )
    )
    wrong = {name for name, type in ended.items() if type == "step.failed"}
    expected = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 22, 25, 26, 27, 29, 30)
    assert wrong == {f"s{number}" for number in expected}, wrong

    children = [row for (row,) in stack.sql("SELECT execution_id FROM execution WHERE parent_id IS NOT NULL")]
    seen, told = 0, set()
    for place, data in places(stack, [execution, *map(str, children)]):
        seen += 1
        told |= {(place, name) for name in found_in(data)}
    assert seen > 200
    assert not told


@pytest.mark.full("user code's environment is looked at in test_workers.py, too")
def test_a_process_of_user_code_finds_no_secret_in_its_environment(canary_stack: Stack) -> None:
    code = "import os; result = sorted(name for name in os.environ if name[:6] in ('NOETL_', 'CANARY'))"
    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: bare, path: acceptance/bare}}
workflow:
  - step: start
    tool: {{kind: python, code: "{code}"}}
"""
    assert canary_stack.run(text).result == []
