"""Common parts of JSON formats: types of fields, and one-line faults."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from cases.records import INTENTS, Intent, RiskLevel
from cases.texts import one_line


def fault(message: str) -> PydanticCustomError:
    """An error for a validator to raise; its message reaches the user unchanged."""
    return PydanticCustomError("fault", "{message}", {"message": message})


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def not_empty(value: str) -> str:
    """Strip `value`, of which something must be left."""
    if not value.strip():
        raise fault("is empty")
    return value.strip()


def encodable(value: str) -> str:
    """Refuse what UTF-8 cannot hold."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise fault(f"character {error.start + 1} is half of a surrogate pair") from error
    return value


def name_or_place(given: object, place: str) -> str:
    """Name of an unusable case: its id if valid, else its place in the file.

    An id that UTF-8 cannot hold is none: it could be stored in no file, and be found in none.
    """
    if isinstance(given, bool) or not isinstance(given, str | int):
        return place
    try:
        return encodable(str(given)).strip() or place
    except (PydanticCustomError, ValueError):
        return place


def _known_intent(value: str) -> str:
    if value not in INTENTS:
        raise fault(f"{reprlib.repr(value)} is not one of {', '.join(INTENTS)}")
    return value


Identifier = Annotated[
    str, BeforeValidator(_number_as_text), AfterValidator(encodable), AfterValidator(not_empty)
]
"""An id: text or a whole number, kept as stripped text."""

Text = Annotated[str, AfterValidator(encodable), AfterValidator(str.strip)]
"""A text, stripped; inner line breaks stay."""

Line = Annotated[str, AfterValidator(encodable), AfterValidator(one_line)]
"""A text whose line breaks become spaces."""

IntentName = Annotated[str, AfterValidator(_known_intent)]
"""One of the twelve intents."""


class IntentFields(BaseModel):
    """The field `intent` of a case: what kind of answer its question asks for."""

    primary: IntentName
    secondary: IntentName | None = None
    risk_level: RiskLevel = "moderate"

    def record(self) -> Intent:
        """The domain record of these fields."""
        return Intent(self.primary, self.secondary, self.risk_level)


def intent_fields(intent: Intent) -> dict[str, str]:
    """The JSON fields of `intent`, without those that it leaves open."""
    fields = {"primary": intent.primary, "secondary": intent.secondary, "risk_level": intent.risk_level}
    return {name: value for name, value in fields.items() if value is not None}


def first_fault(error: ValidationError, fields: Mapping[str, Collection[str]] | None = None) -> str:
    """Describe the first fault of `error` in one line: field, fault and remedy.

    Args:
        error: what pydantic found.
        fields: the known field names of each object that takes no others, under the name of the field
            that holds the object ("" for the outermost); the nearest is proposed for an unknown one.
    """
    details = error.errors(include_url=False)
    place = _place(details[0]["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return (f"{place}: " if place else "") + _message(details[0], fields or {}) + more


def _place(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _message(detail: ErrorDetails, fields: Mapping[str, Collection[str]]) -> str:
    match detail["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "unknown field" + _nearest(detail["loc"], fields)
        case "fault":
            return detail["msg"]
        case "literal_error":
            choices = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
            return f"{reprlib.repr(detail['input'])} is not one of {', '.join(choices)}"
        case _:
            reason = detail["msg"].removeprefix("Input ")
            return f"{reprlib.repr(detail['input'])} {reason}"


def _nearest(location: tuple[int | str, ...], fields: Mapping[str, Collection[str]]) -> str:
    *holders, unknown = (part for part in location if isinstance(part, str))
    known = fields.get(holders[-1] if holders else "", ())
    if not known:
        return ""
    # Short names are alike by chance: `note` and `intent` share as much as the usual 0.6.
    nearest = difflib.get_close_matches(unknown, known, n=1, cutoff=0.7)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(known)}"
