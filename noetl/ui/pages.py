"""The pages: which address is which, and what holds of all of them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Flask

from noetl.errors import NoetlError, Unauthenticated
from noetl.facts.task_names import find_task_name
from noetl.ui import acting, files, flower, listing, news, queues, signing, static_files
from noetl.ui.access import page as access
from noetl.ui.charts import say_span
from noetl.ui.editor import complete
from noetl.ui.editor import page as editor
from noetl.ui.fleet import grouped, operations, retrying
from noetl.ui.instants import mark_instants, say_instant
from noetl.ui.playbook import listing as playbook_listing
from noetl.ui.playbook import page as playbook_page
from noetl.ui.run import again, page
from noetl.ui.site import FLOWER, KEY, Site, check_form, finish, show_error, show_lost
from noetl.ui.visible import VisibleText


def register(app: Flask, site: Site) -> None:
    """Adds the pages to an application."""
    app.extensions[KEY] = site
    app.jinja_env.add_extension(VisibleText)
    app.register_blueprint(_make_blueprint())
    app.register_error_handler(404, show_lost)


def _make_blueprint() -> Blueprint:
    pages = Blueprint("pages", __name__, template_folder="templates")
    pages.before_request(check_form)
    pages.after_request(finish)
    pages.register_error_handler(Unauthenticated, signing.send_to_login)
    pages.register_error_handler(NoetlError, show_error)
    pages.add_app_template_filter(say_span, "span")
    pages.add_app_template_filter(mark_instants, "instants")
    pages.add_app_template_filter(say_instant, "instant")
    pages.add_app_template_filter(find_task_name, "task_name")
    routes: tuple[tuple[str, str, str, Any], ...] = (
        ("GET", "/", "index", listing.show_listing),
        ("POST", "/act", "act", acting.act),
        ("POST", "/again", "again", again.begin_again),
        ("GET", "/fixture", "fixture", again.show_fixture),
        ("GET", "/news", "news", news.show_news),
        # Nothing follows in the path, so that keys may have slashes.
        ("GET", "/executions/<path:address>", "execution", page.show_execution),
        ("POST", "/executions/<path:address>", "answer", page.take_answers),
        ("GET", "/artifacts/<execution_id>/<path:key>", "artifact", files.send_artifact),
        ("GET", "/pictures/<path:name>", "picture", files.send_picture),
        ("GET", "/queues", "queues", queues.show_queues),
        ("POST", "/queues", "steer_queues", queues.steer),
        ("GET", "/access", "access", access.show_access),
        ("POST", "/access", "change_access", access.change),
        ("GET", "/playbooks", "playbooks", playbook_listing.show_playbooks),
        ("GET", "/playbooks/<path:path>", "playbook", playbook_page.show_playbook),
        ("POST", "/playbooks/<path:path>", "start", playbook_page.take_start),
        ("GET", "/failures", "failures", grouped.show_failures),
        ("POST", "/failures/retry", "retry_failures", retrying.retry_groups),
        ("GET", "/operations", "operations", operations.list_operations),
        ("GET", "/operations/<operation_id>", "operation", operations.show_operation),
        ("POST", "/operations/<operation_id>", "steer_operation", operations.steer),
        ("GET", f"{FLOWER}/", "flower_main", flower.show_flower),
        ("GET", f"{FLOWER}/<path:place>", "flower", flower.show_flower),
        ("POST", f"{FLOWER}/{flower.SEARCH}", "flower_search", flower.search_flower),
        ("POST", f"{FLOWER}/<path:place>", "flower_steer", flower.steer_flower),
        ("GET", "/edit", "edit", editor.edit),
        ("POST", "/edit", "register", editor.take_text),
        ("POST", "/edit/check", "check", editor.show_check),
        ("POST", "/edit/complete", "complete", complete.complete),
        ("GET", signing.LOGIN, "login", signing.ask),
        ("POST", signing.LOGIN, "sign_in", signing.sign_in),
        ("POST", "/logout", "sign_out", signing.sign_out),
        ("GET", static_files.RULE, "file", static_files.serve),
    )
    for method, rule, name, view in routes:
        pages.add_url_rule(rule, name, view, methods=[method])
    return pages
