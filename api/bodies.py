"""Types of requests and responses: they validate input, and describe both in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import from_json

from api.problems import Refused, pointer_of
from cases.formats.json_border import encodable, fault, first_fault
from cases.records import Label
from graph.recipe import FLAGSHIP

Body = TypeVar("Body", bound=BaseModel)
MAX_VALUES = 300_000
"""Maximum values in a request body: more take memory and time out of proportion to their bytes."""
MAX_SENTENCES = 10_000
"""Maximum sentences of a case: running a larger one would delay all requests."""
_MOST = {"labels": MAX_SENTENCES, "case": 1_000}
"""Entries of a field, if there are limits other than `_MOST_ENTRIES`."""
_MOST_ENTRIES = 100

Status = Literal["queued", "running", "finished", "interrupted", "stopped", "cancelled", "failed"]

CASE = "Case"
"""The schema of a case, which the description of the API has from the reader of such files."""

_Text = Annotated[str, AfterValidator(encodable)]
_Name = Annotated[str, StringConstraints(max_length=200), AfterValidator(encodable)]
_Case = Annotated[
    dict[str, Any],
    # Shown in the description; pydantic does not follow references to schemas it has not made.
    WithJsonSchema({"type": "object", "title": CASE}),
]
_Value = str | int | float | bool | None


def demand_few_values(content: bytes | bytearray) -> None:
    """Reject documents of too many tiny values before parsing them.

    Raises:
        Refused: It has too many.
    """
    if content.count(b",") + content.count(b"[") + content.count(b"{") > MAX_VALUES:
        raise Refused(413, f"the document has more than {MAX_VALUES:,} values")


def parsed(model: type[Body], content: bytes | bytearray, cases: int) -> Body:
    """The body of a request.

    Lists are measured before they are validated: each wrong value would cost a description of its fault.

    Raises:
        Refused: Its first fault.
    """
    demand_few_values(content)
    try:
        given = from_json(content)
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    for name, value in given.items() if isinstance(given, dict) else ():
        pointer = pointer_of((name,))
        if name not in model.model_fields:
            raise Refused(422, f"{name[:80]}: unknown field; known: {', '.join(model.model_fields)}", pointer)
        most = cases if name == "cases" else _MOST.get(name, _MOST_ENTRIES)
        if isinstance(value, list | dict) and len(value) > most:
            raise Refused(413, f"{name}: {len(value):,} entries, of at most {most:,}", pointer)
        for case in value if isinstance(value, list) else [value]:
            for part, inner in case.items() if isinstance(case, dict) else ():
                if isinstance(inner, list | dict) and len(inner) > MAX_SENTENCES:
                    fault = f"{part[:80]}: {len(inner):,} entries, of at most {MAX_SENTENCES:,} of a case"
                    raise Refused(413, fault, pointer)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise Refused(422, first_fault(error), pointer_of(first["loc"]) or None) from None


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Submission(_Given):
    """Cases, and how they are to be answered: exactly one of `question` with `note`, `case`, or `cases`."""

    question: _Text | None = Field(
        None, description="A question on one note.", examples=["Why was vitamin K given?"]
    )
    note: _Text | None = Field(
        None,
        description="The note, as text; it is split into numbered sentences, and its case is called `note`.",
        examples=["The INR was 6.1 on admission. Vitamin K was given. No bleeding was seen."],
    )
    case: _Case | None = Field(None, description="One case.")
    cases: list[_Case] | None = Field(None, min_length=1, description="Several cases, each with a unique id.")
    system: _Name | None = Field(None, description="A system on offer.", examples=[FLAGSHIP])
    recipe: _Name | None = Field(None, description="A recipe on offer.", examples=[FLAGSHIP])
    model: _Name | None = Field(None, description="A model on offer; the first one without a name.")
    settings: dict[str, _Value] = Field(
        default_factory=dict,
        description="Values of the recipe that the operator lets clients change, by dotted field.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Submission:
        if (self.question is None) != (self.note is None):
            raise fault("`question` and `note` come together")
        given = [self.note, self.case, self.cases]
        if sum(one is not None for one in given) != 1:
            raise fault("give exactly one of `question` with `note`, `case`, `cases`")
        return self


class UploadedCases(_Given):
    """The fields of a form with a case file."""

    file: Annotated[
        str,
        Field(
            description="ArchEHR-QA XML (.xml), JSON lines (.jsonl), questions of BioASQ or PubMedQA (.json)",
            json_schema_extra={"format": "binary"},
        ),
    ]
    system: str | None = None
    recipe: str | None = None
    model: str | None = None
    settings: str | None = Field(
        None, description="As in JSON: an object, as text.", examples=['{"evidence.votes": 3}']
    )


class CaseCounts(BaseModel):
    """Cases by how they ended."""

    total: int = Field(description="Of the submission.")
    done: int
    failed: int
    waiting: int = Field(description="For a person to review their labels.")
    errors: dict[str, int] = Field(default_factory=dict, description="Failed ones by class of their error.")


class RunUsage(BaseModel):
    """Usage by the calls of all sessions."""

    calls: int = Field(description="Samples of prompts that a model was asked for.")
    replayed: int = Field(description="Those that were answered from the call journal, and cost nothing.")
    input_tokens: int
    output_tokens: int
    cost: float | None = Field(None, description="None where the operator gave no prices.")


class RunStatus(BaseModel):
    """A run, without any text of a case."""

    id: str = Field(examples=["20261123T041500-0a1b2c3d4e5f"])
    status: Status = Field(
        description="`interrupted` runs go on when the service starts anew; `stopped` ones have spent their"
        " budget, `failed` ones never began."
    )
    system: str
    recipe: str
    model: str
    settings: dict[str, _Value] = Field(default_factory=dict)
    submitted_at: str = Field(description="UTC, ISO 8601.")
    submitted_by: str
    cases: CaseCounts
    usage: RunUsage
    fault: str = Field("", description="Why it could not begin, or go on.")


class RunList(BaseModel):
    """Runs, newest first."""

    runs: list[RunStatus]
    next: str | None = Field(
        None, description="Give it as `before` for the runs behind these; None for no more."
    )


class CaseState(BaseModel):
    """How a case ended."""

    case_id: str
    status: Literal["done", "failed", "waiting"]


class CaseList(BaseModel):
    """The cases of a run that have ended, in the order of the run's file."""

    cases: list[CaseState]


class CaseError(BaseModel):
    """Why a case failed."""

    model_config = ConfigDict(extra="allow")

    message: str


class CaseResult(BaseModel):
    """How a case ended: its line of `cases.jsonl`; which further fields there are depends on the system."""

    model_config = ConfigDict(extra="allow")

    case_id: str
    status: Literal["done", "failed", "waiting"]
    labels: dict[str, str] = Field(description="`essential` or `not-essential`, by id of the sentence.")
    answer: str | None = None
    answer_status: Literal["answered", "not_stated", "unsupported"] | None = Field(
        None, description="None if the recipe does not verify answers."
    )
    answer_support: list[dict[str, Any]] | None = Field(
        None, description="Sentences of a verified answer: text, support, sentence_ids, probability, faults."
    )
    flags: list[str]
    error: CaseError | None = Field(
        description="With its class and message; None where the case did not fail."
    )


class ReviewSentence(BaseModel):
    """A sentence of the note."""

    id: str
    text: str | None = Field(description="None where the case file is gone.")
    label: str | None = Field(description="That of the last review that the caller may see, or the run's.")
    contested: bool = Field(description="Whether votes differ on it.")


class GivenReview(BaseModel):
    """A review that somebody gave."""

    reviewer: str
    reviewed_at: str
    says: str = Field(description="In words.")


class CaseReview(BaseModel):
    """Content of a case for a reviewer."""

    case_id: str
    status: Literal["done", "failed", "waiting"]
    question: str | None
    narrative: str | None
    sentences: list[ReviewSentence]
    answer: str | None
    marked_answer: str | None = Field(description="The answer with a mark after each unsupported sentence.")
    shown: str = Field(description="Identifies this view; send it back with the review.")
    reviews: list[GivenReview] = Field(
        description="Until all whom the case is assigned to have labelled it, only those of the caller."
    )


class NewReview(_Given):
    """A review: labels, an answer, a comment, or several of them."""

    labels: dict[_Text, Label] | None = Field(
        None,
        description="By id of the sentence. Those that are not named are confirmed as shown; an empty object"
        " confirms all.",
    )
    answer: _Text | None = Field(None, description="The right answer; the shown one confirms it.")
    comment: _Text = Field("", description="For people.")
    shown: _Name = Field(description="The `shown` of the view that was reviewed; 409 if it has changed.")


class SavedReview(BaseModel):
    """The saved review."""

    case_id: str
    reviewer: str
    reviewed_at: str
    says: str
    goes_on: bool = Field(description="Whether the case was waiting for this and now continues.")


class Health(BaseModel):
    """Whether the service is well."""

    status: Literal["ok"]


class OfferedRecipe(BaseModel):
    """A recipe on offer."""

    recipe: str
    system: str


class Choices(BaseModel):
    """Choices for a submission."""

    recipes: list[OfferedRecipe]
    models: list[str] = Field(description="The first is taken where none is named.")
    settings: dict[str, list[str]] = Field(
        description="Dotted fields of recipes, with the words that they may have; numbers, booleans and null"
        " are free."
    )
    cases: int = Field(description="The most of one submission.")
    bytes: int = Field(description="The most of one request.")
