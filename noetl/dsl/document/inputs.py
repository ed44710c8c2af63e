"""What a playbook takes: the declarations of its inputs."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, Tag

from noetl.dsl.document.base import DocumentPart, Key, expect
from noetl.net.inputs import TYPES, InputType
from noetl.net.model import Spelling

#: Words that other languages and engines have for a type, in lower case.
TYPE_WORDS: Final[dict[str, InputType]] = {
    **{type: type for type in TYPES},
    "str": "string",
    "select": "string",
    "secret": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "array": "list",
    "dict": "object",
    "json": "any",
}
#: The word that says at once what the value is and that it is a secret.
SECRET_WORD: Final = "secret"  # noqa: S105 - a word of the language
_WORDS: Final = [*TYPE_WORDS, *(word.upper() for word in TYPE_WORDS)]
TypeWord = Annotated[str, Field(json_schema_extra={"enum": _WORDS})]
_Bound = int | float | str | None


class InputDeclaration(DocumentPart):
    """A key of the workload that whoever starts the playbook may give, and what has to stand there.
    A text in its place is its type. A default stands here or in `workload`, not in both."""

    name: str | None = None
    """In a list of inputs; in a mapping the key is the name."""
    type: TypeWord | None = None
    """`string`, `integer`, `number`, `boolean`, `date`, `datetime`, `list`, `object` or `any`."""
    enum: list[Any] | None = None
    """The values that there are."""
    pattern: str | None = None
    """A regular expression that is found in the text; `^` and `$` make it the whole text."""
    min: Annotated[_Bound, Key(example="1")] = None
    """The least number, or the first date or instant."""
    max: Annotated[_Bound, Key(example="100")] = None
    """The greatest number, or the last date or instant."""
    min_length: int | None = None
    """How many characters a text, or items a list, has at least."""
    max_length: int | None = None
    """How many at most."""
    default: Any = None
    """What it is where nothing is given, as `workload` would say it: it may hold templates."""
    required: bool | None = None
    """Nothing starts without it."""
    secret: bool | None = None
    """It is sealed before anything is recorded; only tools get the value."""
    description: Any = None
    order: int | None = None
    """Where it is shown among the others: smaller ones first."""
    items: InputForm | None = None
    """What each item of a list is."""
    properties: InputForms | None = None
    """What an object has; without, any keys."""
    id: Annotated[str | None, Spelling("name")] = None
    defaults: Annotated[Any, Spelling("default")] = None
    values: Annotated[list[Any] | None, Spelling("enum")] = None
    minimum: Annotated[_Bound, Spelling("min")] = None
    maximum: Annotated[_Bound, Spelling("max")] = None
    min_items: Annotated[int | None, Spelling("min_length")] = None
    max_items: Annotated[int | None, Spelling("max_length")] = None
    item_type: Annotated[TypeWord | None, Spelling("items"), Field(alias="itemType")] = None


InputForm = Annotated[
    Annotated[TypeWord, Tag("<text>")] | Annotated[InputDeclaration, Tag("<mapping>")],
    expect("a type or a mapping with type"),
]
InputForms = Annotated[
    Annotated[dict[str, InputForm], Tag("<mapping>")] | Annotated[list[InputDeclaration], Tag("<list>")],
    expect("a mapping from names to types, or a list of mappings with name"),
]
