"""Bodies that are a playbook: YAML as it is, or JSON that has it as a text."""

from __future__ import annotations

from typing import Final, TypeVar

from flask_openapi3.models import RawModel

from noetl.api.bodies import Body
from noetl.api.wire import body_of, decode

#: What a playbook may be sent as; none of them can come out of an HTML form.
YAML_TYPES: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})

B = TypeVar("B", bound=Body)


class PlaybookOrJson(RawModel):
    """Read by `read_playbook`: the framework reads JSON alone."""

    mimetypes = ["application/json", "application/yaml"]  # noqa: RUF012 - the library's attribute


def read_playbook(raw: PlaybookOrJson, model: type[B], key: str) -> B:
    """The body, of which YAML is what JSON has under `key`. Raises ValidationError, BadRequest."""
    if raw.mimetype in YAML_TYPES:
        return model.model_validate({key: decode(body_of(raw))})
    return model.model_validate(raw.get_json())
