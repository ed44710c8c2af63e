"""The pages: which address is which, and what holds of all of them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Flask

from noetl.errors import NoetlError, Unauthenticated
from noetl.ui import acting, listing, news, signing, static_files
from noetl.ui.charts import say_span
from noetl.ui.editor import complete
from noetl.ui.editor import page as editor
from noetl.ui.run import page
from noetl.ui.site import KEY, Site, check_form, finish, show_error


def register(app: Flask, site: Site) -> None:
    """Adds the pages to an application."""
    app.extensions[KEY] = site
    app.register_blueprint(_make_blueprint())


def _make_blueprint() -> Blueprint:
    pages = Blueprint("pages", __name__, template_folder="templates")
    pages.before_request(check_form)
    pages.after_request(finish)
    pages.register_error_handler(Unauthenticated, signing.send_to_login)
    pages.register_error_handler(NoetlError, show_error)
    pages.add_app_template_filter(say_span, "span")
    routes: tuple[tuple[str, str, str, Any], ...] = (
        ("GET", "/", "index", listing.show_listing),
        ("POST", "/act", "act", acting.act),
        ("GET", "/news", "news", news.show_news),
        # Nothing follows in the path, so that keys may have slashes.
        ("GET", "/executions/<path:address>", "execution", page.show_execution),
        ("POST", "/executions/<path:address>", "answer", page.take_answers),
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
