"""The workload of one execution: the playbook's, overlaid by payload and overrides, rendered once;
and what ctx begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.engine.inputs import Inputs
from noetl.engine.state import State
from noetl.errors import BadRequest, TemplateError
from noetl.expressions import evaluate_at, names_optional, names_used, value_at
from noetl.expressions.scope import layer_names
from noetl.facts.business_key import read_key
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import is_reference, load_value
from noetl.facts.warnings import Warned
from noetl.net.model import Net, Template


def render_workload(net: Net, state: State, inputs: Inputs, warnings: list[Warned] | None = None) -> JsonMap:
    """`workload` templates see each other, payload values, `execution_id`, `job`, `env`, `keychain`
    and `now()`.

    Values of payload and overrides are data and never rendered. What became null is added to
    `warnings`. Raises TemplateError where a template fails or values refer to each other in a
    circle.
    """
    given = deep_merge(state.payload, state.overrides)
    return _Workload(net, given, state, inputs, warnings).all()


def render_keys(net: Net, state: State, inputs: Inputs) -> dict[str, Json | TemplateError]:
    """The same, each value by itself: where one cannot be rendered its error stands in its place.
    For who looks ahead."""
    workload = _Workload(net, deep_merge(state.payload, state.overrides), state, inputs, None)
    return {key: workload.try_value(key) for key in workload}


def render_ctx(net: Net, workload: JsonMap, state: State, inputs: Inputs, warnings: list[Warned]) -> JsonMap:
    """What variables of the execution begin with: `ctx` templates see what those of the workload
    see, and the rendered `workload` itself. Raises TemplateError where a template fails."""
    if not net.ctx:
        return {}
    own = {"workload": workload, "keychain": inputs.keychain}
    names = layer_names(own, request_names(state, inputs), workload)
    return {
        name: inputs.hold(evaluate_at(f"ctx.{name}", value, names, warnings, load=inputs.load))
        for name, value in net.ctx.items()
    }


def render_business_key(net: Net, state: State, inputs: Inputs) -> str | None:
    """What the execution is called by: its template sees what those of the workload see, and their
    values. None where the playbook has no key.

    Raises BadRequest where it cannot be rendered, reads what is not there, or what comes out is no
    key.
    """
    if net.key is None:
        return None
    workload = _Workload(net, deep_merge(state.payload, state.overrides), state, inputs, None)
    gap = next(find_gaps(net.key.value, workload), None)
    if gap is not None:
        raise BadRequest(f"The key of playbook {net.path!r} {describe_gap(gap)}.")
    try:
        return read_key(evaluate_at("key", net.key.value, workload, [], load=inputs.load))
    except TemplateError as error:
        raise BadRequest(f"The key of playbook {net.path!r} cannot be made: {error.message}") from error
    except ValueError as error:
        raise BadRequest(f"The key of playbook {net.path!r} {error}.") from error


def find_gaps(template: str, names: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The chains of names that a key reads, and that lead to nothing where it does not ask for
    that: a key with a gap would be that of others with the same gap."""
    return (
        chain
        for chain in sorted(names_used(template) - names_optional(template))
        if value_at(chain, names) is None
    )


def describe_gap(chain: tuple[str, ...]) -> str:
    """Completes a sentence that begins with what the key is of."""
    name = ".".join(chain)
    return f"reads {name}, which is null; where it may be, write `{name} | default(...)`"


def request_names(state: State, inputs: Inputs) -> dict[str, Any]:
    """What templates see that are rendered before the first step, besides the workload."""
    return {
        "payload": deep_merge(state.payload, state.overrides),
        "execution_id": state.execution_id,
        "job": {"uuid": state.execution_id, "execution_id": state.execution_id},
        "env": inputs.env,
        "now": inputs.now.isoformat,
    }


class _Workload(Mapping[str, Any]):
    """Top-level keys, each rendered when first asked for."""

    def __init__(
        self, net: Net, given: JsonMap, state: State, inputs: Inputs, warnings: list[Warned] | None
    ) -> None:
        self._warnings = [] if warnings is None else warnings
        self._templates = net.workload
        self._given = given
        self._inputs = inputs
        self._done: dict[tuple[str, ...], Json] = {}
        self._open: list[tuple[str, ...]] = []
        own = {"workload": self, "keychain": inputs.keychain}
        self._builtins: dict[str, Any] = own | request_names(state, inputs)

    def all(self) -> JsonMap:
        return {key: self._value(key) for key in {**self._templates, **self._given}}

    def try_value(self, key: str) -> Json | TemplateError:
        """The value of a key, or why there is none."""
        try:
            return self._value(key)
        except TemplateError as error:
            return error

    def _value(self, key: str) -> Json:
        template = self._templates.get(key)
        if (key,) in self._open and isinstance(template, Mapping):
            # What is in it may name its neighbours.
            return _Inside(self, (key,), template, self._given.get(key))
        return self.once((key,), lambda: self._render(key))

    def names_itself(self, path: tuple[str, ...], template: Template) -> bool:
        """Whether the text at `path` is asked for by itself: it means what was given, and nothing
        was."""
        return self._open[-1:] == [path] and isinstance(template, str)

    def once(self, path: tuple[str, ...], render: Callable[[], Json]) -> Json:
        """What `render` makes of the value at `path`. Raises TemplateError where it is asked for on
        the way."""
        if path in self._done:
            return self._done[path]
        if path in self._open:
            raise self.circle(path)
        self._open.append(path)
        try:
            self._done[path] = render()
        finally:
            self._open.pop()
        return self._done[path]

    def circle(self, path: tuple[str, ...]) -> TemplateError:
        """The error of a value that is asked for while it is rendered."""
        met = self._open[self._open.index(path) :]
        # What stands inside of the one before is a part of it.
        apart = [
            one for last, one in zip([(), *met], met, strict=False) if not last or one[: len(last)] != last
        ]
        circle = " → ".join(map(".".join, [*apart, path]))
        return TemplateError(f"values refer to each other in a circle: {circle}.")

    def inner(self, path: tuple[str, ...], template: Template) -> Json:
        """What the value at `path`, inside of another one, comes to."""
        return self.once(path, lambda: self.evaluate_template(path, template))

    def _render(self, key: str) -> Json:
        if key not in self._templates:
            return self._given[key]
        template = self._templates[key]
        if key not in self._given:
            return self.evaluate_template((key,), template)
        given = self._given[key]
        if not (isinstance(template, Mapping) and isinstance(given, Mapping)):
            return given
        if is_reference(given) and self._inputs.load is not None:
            # What a caller hands over may be too large for the log. It lies over the template all
            # the same.
            whole = load_value(given, self._inputs.load)
            return (
                self._inputs.hold(self._over((key,), template, whole))
                if isinstance(whole, Mapping)
                else given
            )
        return self._over((key,), template, given)

    def _over(self, path: tuple[str, ...], template: JsonMap, given: JsonMap) -> Json:
        """`given` deeply over `template`: what is given stays as it is, what is left is
        rendered."""
        kept = {name: value for name, value in template.items() if name not in given}
        merged: dict[str, Json] = dict(self.evaluate_template(path, kept))
        for name, value in given.items():
            under = template.get(name)
            if isinstance(under, Mapping) and isinstance(value, Mapping):
                merged[name] = self._over((*path, name), under, value)
            else:
                merged[name] = value
        return merged

    def evaluate_template(self, path: tuple[str, ...], template: Template) -> Json:
        """What the template at `path` comes to; of a mapping each value by itself, as others may
        ask for it."""
        if isinstance(template, Mapping):
            return {name: self.inner((*path, name), value) for name, value in template.items()}
        place = ".".join(("workload", *path))
        return evaluate_at(place, template, self, self._warnings, load=self._inputs.load)

    def __getitem__(self, name: str) -> Any:
        if name in self._builtins:
            return self._builtins[name]
        if self.names_itself((name,), self._templates.get(name)):
            raise KeyError(name)
        if name in self._templates or name in self._given:
            return self._value(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        keys = {**self._templates, **self._given}
        return (key for key in keys if not self.names_itself((key,), self._templates.get(key)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Inside(Mapping[str, Any]):
    """A mapping of the workload while it is rendered: each of its values by itself."""

    def __init__(self, whole: _Workload, path: tuple[str, ...], template: JsonMap, given: Json) -> None:
        self._whole = whole
        self._path = path
        self._template = template
        self._given = given if isinstance(given, Mapping) else {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._template:
            return self._given[name]
        template, given = self._template[name], self._given.get(name)
        path = (*self._path, name)
        if isinstance(template, Mapping) and (name not in self._given or isinstance(given, Mapping)):
            return _Inside(self._whole, path, template, given)
        if name in self._given:
            return given
        if self._names_itself(name):
            raise KeyError(name)
        return self._whole.inner(path, template)

    def __iter__(self) -> Iterator[str]:
        for name in {**self._template, **self._given}:
            if name not in self._given and self._names_itself(name):
                # Who reads all of it reads itself as well.
                raise self._whole.circle((*self._path, name))
            yield name

    def _names_itself(self, name: str) -> bool:
        return self._whole.names_itself((*self._path, name), self._template.get(name))

    def __len__(self) -> int:
        return len({**self._template, **self._given})
