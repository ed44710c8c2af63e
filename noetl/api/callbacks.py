"""`/api/callbacks/{token}`: the addresses of tasks, which services outside call."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from flask import Request, request
from flask_openapi3.models import RawModel
from pydantic import Field

from noetl.api.answers import WireModel
from noetl.api.called import FORM
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import Parameters
from noetl.api.wire import body_of, check_text, decode, parse
from noetl.errors import BadRequest, NotFound
from noetl.facts.json import Json
from noetl.usecases.callbacks import NOTHING, receive_call

api = group("callbacks", "/api/callbacks", "Addresses of tasks, which services outside call")

#: How often an address may be tried that there is not, by who tries, and how often an execution may
#: be called.
_WRONG: Final = "60/minute"
_CALLS: Final = "6000/minute"
#: Fields of a form.
_MOST: Final = 10_000


class AddressPath(Parameters):
    token: str = Field(description="what the address that a task was handed ends with")


class CallAccepted(WireModel):
    accepted: bool = Field(description="true")
    at: str = Field(description="when the first call of that address was recorded")


class CallBody(RawModel):
    """Any JSON, a form, or a text; none is null."""

    mimetypes = ["application/json", FORM, "text/plain"]  # noqa: RUF012 - the library's attribute


@api.post("/<token>", responses={202: CallAccepted})
def call(path: AddressPath, raw: CallBody) -> tuple[dict[str, Json], int]:
    """Call the address of a task

    The first call counts, whether its task waits yet or not; every later one gets the same answer,
    and changes nothing. No token is needed besides the one in the path. 404 for what is no address,
    409 once nothing waits for the call any more.
    """
    here = services()
    place = here.rt.read_token(path.token)
    if place is None:
        here.rates.count_one(_WRONG, f"wrong {request.remote_addr}", "addresses that there are not")
        raise NotFound(NOTHING)
    here.rates.count_one(_CALLS, f"calls {place.execution_id}", f"execution {place.execution_id}")
    found = receive_call(here.rt, place, _payload(raw))
    return {"accepted": True, "at": found.at}, 202


def _payload(sent: Request) -> Json:
    """What the body says. Raises BadRequest, RequestEntityTooLarge."""
    body = body_of(sent)
    if not body:
        return None
    if sent.mimetype == FORM:
        return _fields(decode(body))
    if "json" in sent.mimetype:
        return parse(body) if body.strip() else None
    text = decode(body)
    check_text(text)
    return text


def _fields(text: str) -> Json:
    """Name → text, or texts where a name is there more than once."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST)
    except UnicodeDecodeError as error:
        raise BadRequest("The form is not UTF-8.") from error
    except ValueError as error:
        raise BadRequest(f"The form has more than {_MOST} fields.") from error
    several: dict[str, list[str]] = {}
    for name, value in pairs:
        several.setdefault(name, []).append(value)
    found: Json = {name: values[0] if len(values) == 1 else values for name, values in several.items()}
    check_text(found)
    return found
