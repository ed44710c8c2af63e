"""Credentials on a page: what they are called and who may use them. Values go in and never come
out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlencode

from flask import request
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import BadRequest, Conflict, Forbidden, NotFound
from noetl.facts.json import JsonMap
from noetl.ui.access.forms import RefusedForm, go_to
from noetl.ui.site import Visitor, show
from noetl.usecases import credentials as use_case
from noetl.usecases.credential_types import OFFERED, PUBLIC, TYPES, may_have_more, read_typed_fields
from noetl.usecases.ports import CredentialRow

HERE: Final = "/access"
#: What the names of fields begin with.
PREFIX: Final = "field."
#: Pairs of a name and a value that are offered where fields may be called as one likes.
_PAIRS: Final = 4
#: Fields that say which credential it is.
_PLACES: Final = ("name", "path", "execution")


def check_type(type: str) -> None:
    """Raises BadRequest for a type of credentials that is none."""
    if type not in TYPES:
        raise BadRequest(f"{type[:40]!r} is no type of a credential: {', '.join(TYPES)}.")


@dataclass(frozen=True, slots=True)
class CredentialForm:
    """A form for a credential of a type. `typed` is what was typed and may be shown again."""

    type: str
    name: str = ""
    path: str = ""
    execution: str = ""
    typed: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> Sequence[tuple[str, bool]]:
        """The names of its fields, and whether each is a secret."""
        return [(name, name not in PUBLIC) for name in OFFERED.get(self.type, ())]

    @property
    def pairs(self) -> range:
        return range(_PAIRS if may_have_more(self.type) else 0)

    @classmethod
    def asked(cls) -> Self | None:
        """That which the address asks for. Raises BadRequest for a type that is none."""
        type = request.args.get("new", "")
        if not type:
            return None
        check_type(type)
        name, path, execution = (request.args.get(one, "") for one in _PLACES)
        return cls(type, name, path, execution)

    @classmethod
    def sent(cls) -> Self:
        """That which was sent, without what is secret."""
        name, path, execution = (request.form.get(one, "").strip() for one in _PLACES)
        keys = [name for name in request.form if name.startswith(PREFIX)]
        typed = {key.removeprefix(PREFIX): request.form[key] for key in keys}
        public = {key: text for key, text in typed.items() if key in PUBLIC}
        return cls(request.form.get("type", ""), name, path, execution, public)


@dataclass(frozen=True, slots=True)
class ShownCredential:
    """A credential as the page shows it."""

    row: CredentialRow
    origin: use_case.Origin | None

    @property
    def place(self) -> dict[str, str]:
        """As fields of a form: who may use it."""
        return {} if self.row.scope == "global" else {self.row.scope: self.row.place}

    @property
    def replace_at(self) -> str:
        """The address with the form that replaces it."""
        return f"{HERE}?{urlencode({'new': self.row.type, 'name': self.row.name, **self.place})}"


def gather(visitor: Visitor) -> Mapping[str, Any]:
    return {**_list(visitor), "form": CredentialForm.asked(), "fault": ""}


def _list(visitor: Visitor) -> Mapping[str, Any]:
    rows = [one for one in use_case.credentials(visitor.rt) if use_case.may_know(visitor.principal, one)]
    shown = [ShownCredential(one, use_case.find_origin(visitor.rt, one)) for one in rows]
    return {"credentials": shown, "types": TYPES, "sees_all": visitor.principal.may("admin")}


def save(visitor: Visitor) -> AnyResponse | RefusedForm:
    """Keeps what was sent. What is wrong with it is said beside the form, which has lost what is
    secret. Raises BadRequest for a type that is none."""
    form = CredentialForm.sent()
    check_type(form.type)
    try:
        of = use_case.audience(form.path or None, form.execution or None)
        use_case.check_may_keep(visitor.principal, of)
        use_case.save(visitor.rt, form.name, form.type, _read_data(), of)
    except (BadRequest, NotFound, Conflict, Forbidden) as error:
        return RefusedForm("", {**_list(visitor), "form": form, "fault": error.message}, error)
    return go_to(HERE)


def _read_data() -> JsonMap:
    """The fields that were filled in. Raises BadRequest for a value without a name."""
    sent = request.form
    data = {key.removeprefix(PREFIX): text for key, text in sent.items() if key.startswith(PREFIX) and text}
    for name, text in zip(sent.getlist("more_name"), sent.getlist("more_value"), strict=False):
        if text and not name.strip():
            raise BadRequest("A value has no name: write what its field is called beside it.")
        if text:
            data[name.strip()] = text
    return read_typed_fields(data)


def delete(visitor: Visitor) -> AnyResponse:
    """Asks whether that is meant, or does it."""
    form = CredentialForm.sent()
    of = use_case.audience(form.path or None, form.execution or None)
    use_case.check_may_keep(visitor.principal, of)
    if request.form.get("sure") != "yes":
        return show("access/delete_credential.html", form=form, of=of)
    use_case.delete(visitor.rt, form.name, of)
    return go_to(HERE)
