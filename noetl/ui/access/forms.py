"""What comes of a form of the page: what is wrong is shown beside it; else the page again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Response, redirect
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import NoetlError
from noetl.ui.site import is_part


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """A form that is shown again, in the tab of that name: `shown` is what its template is given,
    `error` what is wrong."""

    tab: str
    shown: Mapping[str, Any]
    error: NoetlError


def go_to(address: str) -> AnyResponse:
    """The page again, without the form: reloading it sends nothing."""
    if is_part():
        return Response(status=204, headers={"HX-Redirect": address})
    return redirect(address, 303)
