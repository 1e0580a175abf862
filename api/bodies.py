"""What requests and answers hold, as types: they check what comes in, and describe both in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from cases.json_border import encodable, fault
from cases.records import Label
from graph.recipe import FLAGSHIP

Status = Literal["queued", "running", "finished", "interrupted", "stopped", "cancelled", "failed"]

CASE = "Case"
"""The schema of a case, which the description of the API has from the reader of such files."""

_Text = Annotated[str, AfterValidator(encodable)]
_Name = Annotated[str, StringConstraints(max_length=200), AfterValidator(encodable)]
_Case = Annotated[
    dict[str, Any],
    # What stands there in the description; pydantic follows no reference to what it has not made itself.
    WithJsonSchema({"type": "object", "title": CASE}),
]
_Value = str | int | float | bool | None


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
    cases: list[_Case] | None = Field(
        None, min_length=1, description="Several cases, each with an id of its own."
    )
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
    """What the calls of all sessions used."""

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
    flags: list[str]
    error: CaseError | None = Field(
        description="With its class and message; None where the case did not fail."
    )


class ReviewSentence(BaseModel):
    """A sentence of the note."""

    id: str
    text: str | None = Field(description="None where the case file is gone.")
    label: str | None = Field(description="That of the last review of this result, or the run's.")
    contested: bool = Field(description="Whether votes differ on it.")


class GivenReview(BaseModel):
    """A review that somebody gave."""

    reviewer: str
    reviewed_at: str
    says: str = Field(description="In words.")


class CaseReview(BaseModel):
    """What a reviewer needs to see of a case."""

    case_id: str
    status: Literal["done", "failed", "waiting"]
    question: str | None
    narrative: str | None
    sentences: list[ReviewSentence]
    answer: str | None
    shown: str = Field(description="Fingerprint of this result; send it back with the review.")
    reviews: list[GivenReview]


class NewReview(_Given):
    """A review: labels, an answer, a comment, or several of them."""

    labels: dict[_Text, Label] | None = Field(
        None,
        description="By id of the sentence. Those that are not named are confirmed as shown; an empty object"
        " confirms all.",
    )
    answer: _Text | None = Field(None, description="The right answer; the shown one confirms it.")
    comment: _Text = Field("", description="For people.")
    shown: str | None = Field(None, description="Fingerprint of the result that was reviewed.")


class SavedReview(BaseModel):
    """What was saved."""

    case_id: str
    reviewer: str
    reviewed_at: str
    says: str
    goes_on: bool = Field(description="Whether the case waited for this and goes on now.")


class Health(BaseModel):
    """Whether the service is well."""

    status: Literal["ok"]


class OfferedRecipe(BaseModel):
    """A recipe on offer."""

    recipe: str
    system: str


class Choices(BaseModel):
    """What a submission may choose."""

    recipes: list[OfferedRecipe]
    models: list[str] = Field(description="The first is taken where none is named.")
    settings: list[str] = Field(description="Dotted fields of recipes.")
    cases: int = Field(description="The most of one submission.")
    bytes: int = Field(description="The most of one request.")
