"""Flower, as people see it below the pages of NoETL: its scripts run, what playbooks say does not,
and none of it reaches our pages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import Browser, expect

from tests import services
from tests.acceptance.stack import Stack
from tests.needed import running
from tests.ports import free_port
from tests.waiting import GUARD_S, until

from . import untrusted
from .conftest import Look, _broker
from .pages import await_text

PARTS = ("scheduler", "code", "sweeper", "api")

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]


@pytest.fixture(scope="module")
def flowered(
    browser: Browser,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
) -> Iterator[Stack]:
    """A stack with a Flower of another address, as on another machine, that has shown an execution
    of `untrusted.PLAYBOOK`."""
    home, port = tmp_path_factory.mktemp("flowered"), free_port()
    url = postgres_server.create(postgres_template)
    settings = {"flower_url": f"http://127.0.0.2:{port}", "flower_auth": "noetl:pass-word"}
    with running(_broker(home / "redis")) as broker, Stack(home, url, broker, PARTS, settings) as stack:
        options = ["--address=127.0.0.2", f"--port={port}", "--url_prefix=flower"]
        stack.launch("flower", ["celery", "-A", "noetl", "flower", *options])
        place = f"{stack.api}/flower/api"

        def knows(path: str) -> bool:
            with contextlib.suppress(requests.RequestException, ValueError):
                return bool(requests.get(f"{place}/{path}", timeout=GUARD_S).json())
            return False

        until(lambda: knows("workers?refresh=1"), "Flower to know the workers")
        stack.wait([stack.begin(untrusted.PLAYBOOK)])
        until(lambda: knows("tasks?state=FAILURE"), "Flower to know the step that failed")
        yield stack
        stack.check_logs()
    postgres_server.drop(url)


def test_flower_works_below_the_pages_and_leads_on(flowered: Stack, look: Look) -> None:
    visit = look(flowered.api, dark=True)
    visit.open("/")
    visit.page.get_by_role("link", name="Flower").click()
    await_text(visit.page.locator("#workers-table"), "code@")
    visit.shoot("flower-workers")
    visit.page.get_by_role("link", name="Tasks").click()
    await_text(visit.page.locator("#tasks-table tbody tr").first, "FAILURE")
    # It looks again by itself, as its one script in the page says.
    visit.open("/flower/workers")
    with visit.page.expect_response("**/flower/workers?json=1*"):
        pass


def test_what_playbooks_say_is_text_to_flower_and_would_reach_nothing(flowered: Stack, look: Look) -> None:
    visit = look(flowered.api)
    # What the test itself tries in the page is refused, and told of.
    visit.expect("violates|Content Security Policy|Blocked opening|/flower/task/x: csp")
    visit.open("/flower/tasks")
    row = visit.page.locator("#tasks-table tbody tr").filter(has_text="FAILURE").first
    expect(row).to_be_visible()
    row.locator("a[href*='/flower/task/']").first.click()
    await_text(visit.page.locator("body"), "ValueError")
    visit.shoot("flower-task")
    assert visit.page.evaluate("typeof window.pwned") == "undefined"
    for place in ("/", "/api/executions", "/failures"):
        tried = "place => fetch(place).then(() => 'read', () => 'refused')"
        assert visit.page.evaluate(tried, place) == "refused", place
    assert visit.page.evaluate("window.open('/') === null"), "no window of ours to reach into"
    added = """() => { const one = document.createElement("script"); one.textContent = "window.pwned = 1";
        document.body.append(one); document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=window.pwned=1>");
        const picture = document.body.lastElementChild;
        return new Promise(done => picture.addEventListener("error", () => done(typeof window.pwned))); }"""
    assert visit.page.evaluate(added) == "undefined"
    framed = """() => { const one = document.createElement("iframe"); one.src = "/"; document.body.append(one);
        return new Promise(done => { one.onload = () => done(one.contentDocument?.body?.textContent ?? ""); }); }"""
    assert "Executions" not in visit.page.evaluate(framed)
