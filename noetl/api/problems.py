"""Errors as answers: `application/problem+json` (RFC 9457), for every error there is.

`type` is `urn:noetl:problem:<word>`, stable for programs; `detail` is the sentence for people.
Nothing of a defect's inside leaves the process: the answer carries an incident number, the log its
traceback.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, current_app, request
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.exceptions import NotFound as NoRoute
from werkzeug.wrappers import Response as AnyResponse

from noetl import errors
from noetl.api.called import hide_token
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.nearest import nearest

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
PREFIX: Final = "/api/"

#: A token, or what was one.
_TOKEN: Final = re.compile(r"(noetl_[A-Za-z0-9]{1,40}_)[A-Za-z0-9_-]+")
#: The pages of this server, by their blueprints: browsers ask for a password where they are told
#: to.
_PAGES: Final = frozenset({"docs"})

#: The first class that fits decides: subclasses stand before their bases.
_ANSWERS: Final[Sequence[tuple[type[errors.NoetlError], int, str]]] = (
    (errors.PlaybookInvalid, 422, "playbook-invalid"),
    (errors.TemplateSecurity, 400, "template-security"),
    (errors.TemplateLimit, 400, "template-limit"),
    (errors.TemplateError, 400, "template"),
    (errors.Unauthenticated, 401, "unauthenticated"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.TooManyRequests, 429, "too-many-requests"),
    (errors.NotFound, 404, "not-found"),
    (errors.VersionConflict, 409, "version-conflict"),
    (errors.KeyTaken, 409, "key-taken"),
    (errors.Conflict, 409, "conflict"),
    (errors.InputsInvalid, 422, "inputs-invalid"),
    (errors.PrerequisitesMissing, 422, "prerequisites-missing"),
    (errors.LimitExceeded, 413, "too-large"),
    (errors.BadRequest, 400, "bad-request"),
    (errors.Unavailable, 503, "unavailable"),
)


def problem(
    status: int, kind: str, detail: str, extras: Mapping[str, Json] | None = None, headers: Any = None
) -> Response:
    """One problem. `extras` are further members of its object."""
    return Response(
        json.dumps(_body(status, kind, detail, extras)), status=status, mimetype=MEDIA_TYPE, headers=headers
    )


def _body(status: int, kind: str, detail: str, extras: Mapping[str, Json] | None = None) -> dict[str, Json]:
    return {
        "type": f"urn:noetl:problem:{kind}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": mask(detail),
        "instance": mask(request.path),
        **(extras or {}),
    }


def mask(text: str) -> str:
    """The text without the secrets of tokens: it may repeat what somebody sent to a wrong place."""
    return hide_token(_TOKEN.sub(r"\1…", text))


def as_json(error: errors.NoetlError) -> dict[str, Json]:
    """The problem object of an error that is part of an answer, as in a batch. Raises the error
    where it is a defect."""
    found = _status_of(error)
    if found is None:
        raise error
    status, kind = found
    return _body(status, kind, error.message, _extras(error))


def register(app: Flask) -> None:
    """Makes every error of `app` a problem."""
    app.register_error_handler(errors.NoetlError, _noetl)
    app.register_error_handler(HTTPException, _http)
    # Of models that a handler fills itself, where a route takes more than one kind of body.
    app.register_error_handler(ValidationError, invalid)
    app.register_error_handler(Exception, _defect)


def _noetl(error: errors.NoetlError) -> Response:
    found = _status_of(error)
    if found is None:
        return _defect(error)
    status, kind = found
    answer = problem(status, kind, error.message, _extras(error))
    match error:
        case errors.Unavailable():
            answer.headers["Retry-After"] = "1"
        case errors.TooManyRequests(retry_after_s=seconds):
            answer.headers["Retry-After"] = str(seconds)
        case errors.Unauthenticated():
            _challenge(answer)
    return answer


def _challenge(answer: Response) -> None:
    """Says how to authenticate. Of programs no password is asked."""
    answer.headers.add("WWW-Authenticate", 'Bearer realm="noetl"')
    if request.blueprint in _PAGES and request.method == "GET":
        answer.headers.add("WWW-Authenticate", 'Basic realm="noetl: a token as the password"')


def status_of(error: errors.NoetlError) -> int | None:
    """The HTTP status of an error; None for a defect."""
    found = _status_of(error)
    return None if found is None else found[0]


def _status_of(error: errors.NoetlError) -> tuple[int, str] | None:
    return next(((status, kind) for cls, status, kind in _ANSWERS if isinstance(error, cls)), None)


def _extras(error: errors.NoetlError) -> dict[str, Json]:
    match error:
        case errors.PlaybookInvalid(problems=problems):
            return {"problems": [one.as_json() for one in problems]}
        case errors.InputsInvalid(faults=faults):
            return {"errors": [dict(one) for one in faults]}
        case errors.PrerequisitesMissing(faults=faults):
            return {"missing": [dict(one) for one in faults]}
        case errors.TemplateError(source=source, line=line):
            return {"source": source[:1000], "line": line}
        case errors.VersionConflict(expected=expected, actual=actual):
            return {"expected": expected, "actual": actual}
        case errors.KeyTaken(execution_id=execution_id):
            return {"execution_id": execution_id}
        case _:
            return {}


def _http(error: HTTPException) -> AnyResponse:
    code = error.code or 500
    if error.response is not None or code < HTTPStatus.BAD_REQUEST:
        return error.get_response()
    match error:
        case MethodNotAllowed():
            allowed = ", ".join(sorted(error.valid_methods or ()))
            detail = f"{request.method} is not possible at {request.path}; allowed: {allowed}."
            return problem(code, "method-not-allowed", detail, headers={"Allow": allowed})
        case NoRoute():
            return no_route()
        case _:
            return problem(code, HTTPStatus(code).phrase.lower().replace(" ", "-"), _sentence(code, error))


def _sentence(code: int, error: HTTPException) -> str:
    if code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        limit = request.max_content_length
        return f"The body is larger than {limit} bytes; keep large data outside and hand over where it is."
    return error.description or HTTPStatus(code).phrase


def no_route() -> Response:
    """There is nothing at the address of the request; it names the nearest one."""
    rules = {str(rule) for rule in current_app.url_map.iter_rules() if rule.endpoint != "static"}
    # What all of them begin with is no likeness.
    known = {rule.removeprefix(PREFIX): rule for rule in sorted(rules)}
    near = known.get(nearest(request.path[:200].removeprefix(PREFIX), known) or "")
    hint = f" Did you mean {near}?" if near else ""
    return problem(
        404,
        "no-route",
        f"There is nothing at {request.path[:200]}.{hint}",
        {"nearest": near} if near else None,
    )


def _defect(error: Exception) -> Response:
    incident = secrets.token_hex(4)
    log.error("Incident %s: %s %s failed", incident, request.method, mask(request.path), exc_info=error)
    detail = f"This is a defect or a broken set-up; the server's log says more under incident {incident}."
    return problem(500, "internal", detail, {"incident": incident})


def invalid(error: ValidationError) -> Response:
    """What pydantic found in a body, a query or a header: 400 with every fault."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return refuse_all(
        [
            (".".join(map(str, one["loc"])) or "body", one["msg"].removeprefix("Value error, "))
            for one in found
        ]
    )


def refuse_all(faults: Sequence[tuple[str, str]]) -> Response:
    """400 with every fault: where it is, and what it is."""
    detail = "; ".join(f"{where}: {message}" for where, message in faults[:5])
    end = "" if detail.endswith("?") else "."
    problems: list[Json] = [{"where": where, "message": message} for where, message in faults]
    return problem(400, "bad-request", detail + end, {"problems": problems})
