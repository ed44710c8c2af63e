"""The workload of one execution: the playbook's, overlaid by payload and overrides, rendered once; and what ctx begins
with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.engine.inputs import Inputs
from noetl.engine.state import State
from noetl.errors import TemplateError
from noetl.expressions import Warn, evaluate
from noetl.expressions.scope import layered
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import is_reference, loaded
from noetl.net.model import Net


def render_workload(net: Net, state: State, inputs: Inputs, warn: Warn | None = None) -> JsonMap:
    """`workload` templates see each other, payload values, `execution_id`, `job`, `env`, `keychain` and `now()`.

    Values of payload and overrides are data and never rendered. Raises TemplateError where a template
    fails or values refer to each other in a circle.
    """
    given = deep_merge(state.payload, state.overrides)
    return _Workload(net, given, state, inputs, warn).all()


def render_ctx(
    net: Net, workload: JsonMap, state: State, inputs: Inputs, warn: Warn | None = None
) -> JsonMap:
    """What variables of the execution begin with: `ctx` templates see what those of the workload see, and the rendered
    `workload` itself. Raises TemplateError where a template fails."""
    if not net.ctx:
        return {}
    given = deep_merge(state.payload, state.overrides)
    names = layered({**_builtins(state, inputs, given), "workload": workload}, workload)
    return {
        name: inputs.hold(evaluate(value, names, load=inputs.load, warn=warn))
        for name, value in net.ctx.items()
    }


def _builtins(state: State, inputs: Inputs, given: JsonMap) -> dict[str, Any]:
    """What templates see that are rendered before anything runs, besides the workload."""
    now = inputs.now.isoformat()
    return {
        "payload": given,
        "execution_id": state.execution_id,
        "job": {"uuid": state.execution_id, "execution_id": state.execution_id},
        "env": inputs.env,
        "keychain": inputs.keychain,
        "now": lambda: now,
    }


class _Workload(Mapping[str, Any]):
    """Top-level keys, each rendered when first asked for."""

    def __init__(self, net: Net, given: JsonMap, state: State, inputs: Inputs, warn: Warn | None) -> None:
        self._warn = warn
        self._templates = net.workload
        self._given = given
        self._inputs = inputs
        self._done: dict[str, Json] = {}
        self._open: list[str] = []
        self._builtins = {**_builtins(state, inputs, given), "workload": self}

    def all(self) -> JsonMap:
        keys = [*self._templates, *(key for key in self._given if key not in self._templates)]
        return {key: self._value(key) for key in keys}

    def _value(self, key: str) -> Json:
        if key in self._done:
            return self._done[key]
        if key in self._open:
            circle = " → ".join([*self._open[self._open.index(key) :], key])
            raise TemplateError(f"values refer to each other in a circle: {circle}.")
        self._open.append(key)
        try:
            self._done[key] = self._rendered(key)
        finally:
            self._open.pop()
        return self._done[key]

    def _rendered(self, key: str) -> Json:
        if key not in self._templates:
            return self._given[key]
        template = self._templates[key]
        if key not in self._given:
            return evaluate(template, self, load=self._inputs.load, warn=self._warn)
        given = self._given[key]
        if not (isinstance(template, Mapping) and isinstance(given, Mapping)):
            return given
        if is_reference(given) and self._inputs.load is not None:
            # What a caller hands over may be too large for the log. It lies over the template all the same.
            whole = loaded(given, self._inputs.load)
            return self._inputs.hold(self._over(template, whole)) if isinstance(whole, Mapping) else given
        return self._over(template, given)

    def _over(self, template: JsonMap, given: JsonMap) -> Json:
        kept = {name: value for name, value in template.items() if name not in given}
        return _overlaid(evaluate(kept, self, load=self._inputs.load), template, given, self, self._inputs)

    def __getitem__(self, name: str) -> Any:
        if name in self._builtins:
            return self._builtins[name]
        if name in self._templates or name in self._given:
            return self._value(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._templates, **self._given})

    def __len__(self) -> int:
        return len({**self._templates, **self._given})


def _overlaid(
    rendered: Json, template: JsonMap, given: JsonMap, names: Mapping[str, Any], inputs: Inputs
) -> Json:
    """`given` deeply over `template`: what is given stays as it is, what is left is rendered."""
    merged: dict[str, Json] = dict(rendered)
    for key, value in given.items():
        under = template.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            kept = {name: inner for name, inner in under.items() if name not in value}
            rest = evaluate(kept, names, load=inputs.load)
            merged[key] = _overlaid(rest, under, value, names, inputs)
        else:
            merged[key] = value
    return merged
