"""The tabs for what an execution has kept and what its quantum tasks have yielded, and the files
that lead from there."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl import bootstrap
from noetl.config import Settings
from noetl.facts.reference import Retention
from noetl.ui.run.artifacts import PAGE
from noetl.usecases import catalog, inspect, tokens
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.waiting import until

from .browsing import Page
from .conftest import with_token
from .lending import Lend

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
PAGE_OF_IT = "<html><script>alert(1)</script></html>"

KEEPS = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: keeps, path: demo/keeps}}
workflow:
  - step: rows
    tool:
      kind: python
      code: "result = [{{'id': number, 'text': 'x' * 40}} for number in range(30000)]"
    next: picture
  - step: picture
    tool: {{kind: artifact, action: put, key: "plots/a b.png", encoding: base64, data: "{base64.b64encode(PNG).decode()}"}}
    next: drawing
  - step: drawing
    tool: {{kind: artifact, action: put, key: drawing.svg, data: '{SVG}'}}
    next: page
  - step: page
    tool: {{kind: artifact, action: put, key: page.html, data: '{PAGE_OF_IT}'}}
    next: liar
  - step: liar
    tool: {{kind: artifact, action: put, key: liar.png, data: '{PAGE_OF_IT}'}}
    next: looks
  - step: looks
    tool: {{kind: artifact, action: get, key: page.html}}
    next: many
  - step: many
    loop: {{in: "{{{{ range(30) | list }}}}", iterator: n}}
    tool: {{kind: artifact, action: put, key: "many/{{{{ iter.n }}}}.txt", data: "x"}}
    next: again
  - step: again
    tool: {{kind: artifact, action: put, key: page.html, data: again}}
"""

QUANTUM = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bell, path: demo/bell}
workflow:
  - step: bell
    tool: {kind: quantum, builder: {name: ghz, qubits: 2}, repetitions: 1000, seed: 1}
    next: sweep
  - step: sweep
    tool:
      kind: quantum
      builder: {name: qaoa_maxcut, edges: [[0, 1]], layers: 1}
      params: {product: {gamma0: [0.3, 0.6], beta0: [0.2, 0.4]}}
      repetitions: 100
      seed: 4
    next: means
  - step: means
    tool: {kind: quantum, action: expect, builder: {name: ghz, qubits: 2}, observables: {zz: Z0 Z1}}
    next: asked
  - step: asked
    tool: {kind: quantum, action: estimate, builder: {name: ghz, qubits: 2}, repetitions: 10}
"""

#: Processes that simulate begin with seconds of imports.
CIRCUITS = pytest.mark.full("8 s: tries circuits")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.from_env({"NOETL_HOME": str(tmp_path_factory.mktemp("kept"))})


@pytest.fixture(scope="module")
def rt(settings: Settings) -> Iterator[Runtime]:
    with bootstrap.local(settings) as found:
        yield found


@pytest.fixture
def browser(rt: Runtime, settings: Settings, lend: Lend) -> FlaskClient:
    return lend(rt, settings).test_client()


def run(rt: Runtime, playbook: str) -> str:
    row = catalog.register(rt, playbook)
    begun = start(rt, StartRequest(row.path, row.version, {})).execution_id
    until(lambda: inspect.execution(rt, begun).status in ENDED, f"the end of {row.path}")
    assert inspect.execution(rt, begun).status == "completed", inspect.report(rt, begun).error
    return begun


@pytest.fixture(scope="module")
def keeps(rt: Runtime) -> str:
    return run(rt, KEEPS)


@pytest.fixture(scope="module")
def quantum(rt: Runtime) -> str:
    return run(rt, QUANTUM)


def look(browser: FlaskClient, execution_id: str, **query: Any) -> Page:
    answer = browser.get(f"/executions/{execution_id}", query_string=query)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def rows_of(page: Page) -> list[str]:
    return re.findall(
        r"many/\d+\.txt|plots/a b\.png|drawing\.svg|page\.html|liar\.png|\b[0-9a-f]{12}\b", page.text
    )


def test_what_was_kept_is_listed_newest_first_and_each_once(browser: FlaskClient, keeps: str) -> None:
    first = look(browser, keeps, tab="artifacts")
    second = look(browser, keeps, tab="artifacts", page="1")
    found = rows_of(first) + rows_of(second)
    names = list(dict.fromkeys(found))
    assert names[:2] == ["page.html", "many/29.txt"], "what was put again stands where it was put last"
    assert names[-4:-1] == ["liar.png", "drawing.svg", "plots/a b.png"]
    assert len(names) == 30 + 5
    assert "Parquet" in second.text
    assert "MB" in second.text
    assert f"things 1 to {PAGE} of 35" in first.text


def test_what_an_execution_had_kept_at_a_moment(browser: FlaskClient, rt: Runtime, keeps: str) -> None:
    (drawn,) = [
        one.version for one in inspect.events(rt, keeps, types=["step.done"]) if one.draft.step == "drawing"
    ]
    page = look(browser, keeps, tab="artifacts", at=drawn)
    assert "drawing.svg" in page.text
    assert "many/" not in page.text


@CIRCUITS
def test_an_execution_that_keeps_nothing_says_so(browser: FlaskClient, quantum: str) -> None:
    assert "No artifacts" in look(browser, quantum, tab="artifacts").text


@CIRCUITS
def test_only_playbooks_of_quantum_tasks_have_a_tab_for_them(
    browser: FlaskClient, keeps: str, quantum: str
) -> None:
    assert [one for one in look(browser, quantum).links if "tab=quantum" in one]
    assert not [one for one in look(browser, keeps).links if "tab=quantum" in one]
    assert browser.get(f"/executions/{keeps}?tab=quantum").status_code == 404


def test_pictures_of_pixels_are_shown_and_nothing_else_runs(browser: FlaskClient, keeps: str) -> None:
    def fetch(key: str) -> Any:
        return browser.get(f"/artifacts/{keeps}/{key}")

    links = [one for number in "01" for one in look(browser, keeps, tab="artifacts", page=number).links]
    assert f"/artifacts/{keeps}/plots/a%20b.png" in links
    shown = fetch("plots/a%20b.png")
    assert (shown.mimetype, shown.data, shown.content_length) == ("image/png", PNG, len(PNG))
    assert shown.headers["Content-Disposition"].startswith("inline")
    for key, mimetype, data in (
        ("drawing.svg", "image/svg+xml", SVG),
        ("page.html", "application/octet-stream", "again"),
        ("liar.png", "application/octet-stream", PAGE_OF_IT),
    ):
        answer = fetch(key)
        assert (answer.mimetype, answer.text) == (mimetype, data)
        assert answer.headers["Content-Disposition"].startswith("attachment"), key
    for key in ("drawing.svg", "page.html", "plots/a%20b.png"):
        headers = fetch(key).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


@pytest.mark.parametrize(
    "key", ["nothing.txt", "../../x", "%2e%2e/%2e%2e/noetl.db", "a//b", "plots", "a%00b"]
)
def test_no_key_leads_elsewhere(browser: FlaskClient, keeps: str, key: str) -> None:
    answer = browser.get(f"/artifacts/{keeps}/{key}")
    assert answer.status_code in (308, 400, 404)
    assert browser.get(f"/artifacts/x/{key}").status_code in (308, 400, 404)


def test_a_picture_among_results_is_shown(
    browser: FlaskClient, rt: Runtime, keeps: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(PNG)
    reference = rt.results.put_file(tmp_path / "a", "image/png", Retention(keeps))
    name = reference["ref"].removeprefix("noetl://results/")
    answer = browser.get(f"/pictures/{name}")
    assert (answer.mimetype, answer.data) == ("image/png", PNG)
    (tmp_path / "b").write_text(PAGE_OF_IT)
    other = rt.results.put_file(tmp_path / "b", "image/png", Retention(keeps))["ref"]
    assert browser.get(f"/pictures/{other.removeprefix('noetl://results/')}").status_code == 400
    assert browser.get(f"/pictures/executions/{keeps}/{'0' * 64}.bytes").status_code == 404


def test_who_may_not_read_an_execution_gets_none_of_its_files(
    rt: Runtime, settings: Settings, keeps: str, lend: Lend
) -> None:
    app = lend(rt, replace(settings, open=False))
    stranger, reader = (
        with_token(app.test_client(), tokens.create(rt, name, [grant]).text)
        for name, grant in (("stranger", "read:other/*"), ("reader", "read:demo/*"))
    )
    assert reader.get(f"/artifacts/{keeps}/page.html").status_code == 200
    assert stranger.get(f"/artifacts/{keeps}/page.html").status_code == 404
    assert stranger.get(f"/pictures/executions/{keeps}/{'0' * 64}.bytes").status_code == 404


# --- quantum --------------------------------------------------------------------------------------


@CIRCUITS
def test_quantum_results_say_where_they_come_from(browser: FlaskClient, quantum: str) -> None:
    page = look(browser, quantum, tab="quantum")
    for text in ("simulator", "Seed", "1000", "cirq ", "numpy ", "noetl ", "builder"):
        assert text in page.text, text
    assert re.search(r"00\s*5\d\d|00\s*4\d\d", page.text)
    assert "11" in page.text
    assert [one for one in page.links if one.endswith(f"{quantum}?step=bell&run=bell%231")]
    assert "0: ───H───@───M('m')───" in page.text


@CIRCUITS
def test_a_sweep_is_a_table_of_its_points(browser: FlaskClient, quantum: str) -> None:
    page = look(browser, quantum, tab="quantum")
    for text in ("gamma0", "beta0", "|00⟩", "0.3", "0.6"):
        assert text in page.text, text
    assert "zz" in page.text
    assert page.text.index("means") < page.text.index("gamma0"), "the newest first"
    assert "orders" in page.text, "what has no provenance is shown as it is"
