"""A browser without scripts: pages, their forms, and what is sent back."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from flask.testing import FlaskClient

HOST = "http://localhost"
OWN = {"Origin": HOST}


class Page(HTMLParser):
    """The fields of the form that a browser would send (of the last one that has a field of the
    name), the tags and the texts of a page. Forms without a field that is seen are left out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.actions: list[str] = []
        self._area = self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        name = of.get("name", "")
        if tag == "a":
            self.links.append(of.get("href", ""))
        elif tag == "form":
            # Where something is sent, not where the address of a page is made.
            self.actions += [of.get("action", "")] if of.get("method") == "post" else []
        elif tag == "input":
            self.types[name] = of.get("type", "text")
            if of.get("type") != "checkbox" or "checked" in of:
                self.fields[name] = of.get("value", "")
        elif tag == "textarea":
            self._area, self.types[name], self.fields[name] = name, "textarea", ""
        elif tag == "select":
            self._select, self.types[name] = name, "select"
        elif tag == "option" and (self._select not in self.fields or "selected" in of):
            self.fields[self._select] = of["value"]

    def handle_endtag(self, tag: str) -> None:
        self._area = "" if tag == "textarea" else self._area

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._area:
            # Browsers leave out the line break behind the tag.
            self.fields[self._area] += data.removeprefix("\n")


def sign_in(client: FlaskClient, token: str, where: str = "/") -> Any:
    """As a person does: the form, and the token in it."""
    page = Page(client.get("/login", query_string={"next": where}).text)
    return client.post("/login", data={**page.fields, "token": token}, headers=OWN)
