"""Templates: people read signs for what cannot be seen, browsers send back what was there."""

from __future__ import annotations

import pytest
from jinja2 import Environment

from noetl.ui.visible import VisibleText

ODD = "a\u202e\x1b[31m\x07\u200fb"
SEEN = "a[U+202E]\u241b[31m\u2407[U+200F]b"


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("<h1>{{ odd }}</h1>", f"<h1>{SEEN}</h1>"),
        ("<title>{{ odd or 'x' }} · NoETL</title>", f"<title>{SEEN} · NoETL</title>"),
        ('<p title="of {{ 1 }} {{ odd }}">', f'<p title="of 1 {SEEN}">'),
        ('<p class="x" aria-label="{% if odd %}{{ odd }}{% endif %}">', f'<p class="x" aria-label="{SEEN}">'),
        ('<b class="{{ 1 }}">{{ odd }}', f'<b class="1">{SEEN}'),
        ("{% macro m(x) %}<i>{{ x }}</i>{% endmacro %}{{ m(odd) }}", f"<i>{SEEN}</i>"),
        ('<a href="/x?{{ 1 }}">"{{ odd }}"</a>', f'<a href="/x?1">"{SEEN}"</a>'),
        ("<textarea>\n{{ 1 }}</textarea>{{ odd }}", f"<textarea>\n1</textarea>{SEEN}"),
        ('<input value="{{ odd }}">', f'<input value="{ODD}">'),
        ('<input value="{{ none or odd }}">', f'<input value="{ODD}">'),
        ('<input value="{% if odd %}{{ odd }}{% endif %}">', f'<input value="{ODD}">'),
        ('<option value="{{ odd }}">{{ odd }}</option>', f'<option value="{ODD}">{SEEN}</option>'),
        ('<g data-step="{{ odd }}"><title>{{ odd }}', f'<g data-step="{ODD}"><title>{SEEN}'),
        (
            '<textarea name="a" placeholder="{{ odd }}"{% if odd %} readonly{% endif %}>\n{{ odd }}</textarea>',
            f'<textarea name="a" placeholder="{SEEN}" readonly>\n{ODD}</textarea>',
        ),
        ('<input value="{{ \'"<&\' }}">{{ "<&" }}', '<input value="&#34;&lt;&amp;">&lt;&amp;'),
        ('<input value="{{ nothing }}">{{ nothing }}{{ 7 }}{{ none }}', '<input value="">7None'),
    ],
)
def test_a_text_is_visible_where_people_read_it_and_exact_where_browsers_do(
    template: str, shown: str
) -> None:
    made = Environment(autoescape=True, extensions=[VisibleText]).from_string(template)
    assert made.render(odd=ODD).rstrip("\n") == shown.rstrip("\n")
