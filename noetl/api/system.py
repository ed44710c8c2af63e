"""`/api/health`, `/api/runtime`, `/api/context/render`."""

from __future__ import annotations

from dataclasses import fields

from noetl import __version__
from noetl.api.answers import Health, RenderedTemplate, RuntimeView, fields_of
from noetl.api.bodies import RenderBody
from noetl.api.context import services
from noetl.api.groups import group
from noetl.expressions import Absence, evaluate, sentence
from noetl.facts.json import Json
from noetl.usecases import health as checks
from noetl.usecases.ports import WorkerRow

api = group("system", "/api", "This installation")


@api.get("/health", responses={200: Health, 503: Health})
def health() -> tuple[dict[str, Json], int]:
    """Tell whether the database and the broker answer

    200 while requests are accepted (`ok`, or `degraded` where the broker is away), else 503.
    """
    found = checks.health(services().rt)
    return found, 503 if found["status"] == "down" else 200


@api.get("/runtime", responses={200: RuntimeView})
def runtime() -> dict[str, Json]:
    """Show the version, the tool kinds and their queues, and the workers seen within a minute"""
    rt, sees_all = services().rt, services().principal.may("read")
    kinds = [
        {"kind": one.kind, "queue": one.queue, "effects": one.effects, "description": one.description}
        for _, one in sorted(rt.kinds.items())
    ]
    names = [one.name for one in fields(WorkerRow)]
    return {
        "version": __version__,
        "kinds": kinds,
        "queues": sorted({one["queue"] for one in kinds}),
        "workers": [fields_of(row, names) for row in checks.workers(rt)],
        # They say what somebody's execution was given.
        "dead_letters": [dict(letter) for letter in checks.dead_letters(rt) if sees_all],
    }


@api.post("/context/render", responses={200: RenderedTemplate})
def render(body: RenderBody) -> dict[str, Json]:
    """Evaluate a template against a context

    With the language and the limits of playbooks; nothing but the context is visible.
    """
    warnings: list[Absence] = []
    value = evaluate(body.template, body.context, warn=warnings.append)
    return {"result": value, "warnings": [sentence(one) for one in warnings]}
