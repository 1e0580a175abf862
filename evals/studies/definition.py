"""A study is one YAML file: what is trained on which part of the data, with which seeds, for which tables."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from cases.definitions import DefinitionKind, Section
from evals.studies.errors import StudyError

TableName = Literal["tamu-1", "tamu-2", "abridge-2", "abridge-3", "abridge-5", "abridge-9"]
"""TAMU 2026: 1 objectives, 2 cut-offs. Abridge 2025: 2 fusion types, 3 domains, 5 noise, 9 LSTM."""

Baseline = Literal["bm25", "logistic", "random", "all", "last-3"]

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+=,-]{0,79}$")]
"""Also the name of a folder."""


class Parts(Section):
    """How the groups of examples are split; all rows and seeds have the same parts.

    Attributes:
        held_out: Share of all groups that figures are reported on.
        tuning: Share of the other groups that epochs and cut-offs are chosen on.
        seed: Of the choice of groups.
    """

    held_out: float = Field(0.2, gt=0, lt=1)
    tuning: float = Field(0.2, gt=0, lt=1)
    seed: int = 42


class Domain(Section):
    """Examples of one kind, for the table of domain shift.

    Attributes:
        of: The data of the study, or those of pre-training.
        structured: Abstracts with headings, or without; None takes both (SciFact tells them apart).
        window: Documents of `of: pretrain` are cut into windows of as many sentences; None reads their
            abstracts alone.
        limit: At most as many held-out examples.
    """

    of: Literal["data", "pretrain"] = "data"
    structured: bool | None = None
    window: int | None = Field(None, ge=2)
    limit: int | None = Field(None, ge=1)


class PretrainingData(Section):
    """What `pretrain: true` learns from before its training.

    Attributes:
        window: Sentences of a window; windows without evidence are left out.
        limit: At most as many examples.
        epochs: Over them.
        head: `carry` goes on with everything that was learned, `fresh` with the backbone alone.
    """

    window: int = Field(20, ge=2)
    limit: int | None = Field(150, ge=1)
    epochs: int = Field(1, ge=1)
    head: Literal["carry", "fresh"] = "carry"


class Row(Section):
    """A row of tables: a training, or a baseline that needs none.

    Attributes:
        label: As the tables print it; empty prints its name.
        recipe: A packaged training recipe, or a file; empty is that of the study.
        set: Values of the recipe by dotted field, such as `model.fusion`; they come after those of the study.
        pretrain: Whether it is pre-trained.
        train_on: A domain that it is trained and tuned on alone.
    """

    label: str = ""
    recipe: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    pretrain: bool = False
    train_on: Name | None = None
    baseline: Baseline | None = None

    @model_validator(mode="after")
    def _what_is_not_trained_has_no_recipe(self) -> Row:
        if self.baseline is not None and (self.recipe or self.set or self.pretrain):
            raise ValueError("a baseline takes neither a recipe nor values of one nor pre-training")
        return self


class Study(Section):
    """A grid of trainings. Paths are relative to the file.

    Attributes:
        about: One or two sentences for every caption: what the data stand in for.
        recipe: Of rows that name none.
        set: Values that all rows share, by dotted field.
        split: Of the data.
        limit: At most as many training examples; None takes all.
        pretraining: Of rows with `pretrain`.
        domains: By name, in the order of their columns.
        seeds: Each row is trained once with each. They change weights and order, never the parts.
        rows: By name.
        tables: Rows of each table in order. The others are compared with the first.
    """

    about: str = ""
    recipe: str = "pointwise"
    set: dict[str, Any] = Field(default_factory=dict)
    split: Parts = Parts()
    limit: int | None = Field(None, ge=1)
    pretraining: PretrainingData = PretrainingData()
    domains: dict[Name, Domain] = Field(default_factory=dict)
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1)
    rows: dict[Name, Row]
    tables: dict[TableName, list[Name]]

    @model_validator(mode="after")
    def _names_are_known(self) -> Study:
        if len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 1:
            raise ValueError("seeds are different numbers from 1")
        for table, names in self.tables.items():
            for name in names:
                _require(name, self.rows, f"table {table} names row")
        for name, row in self.rows.items():
            if row.train_on is not None:
                _require(row.train_on, self.domains, f"row {name} trains on domain")
        if "abridge-3" in self.tables and not self.domains:
            raise ValueError("table abridge-3 compares domains, and the study has none")
        return self

    @property
    def needs_pretraining_data(self) -> bool:
        """Whether anything is learned from, or tested on, the data of pre-training."""
        return any(row.pretrain for row in self.rows.values()) or any(
            domain.of == "pretrain" for domain in self.domains.values()
        )


STUDIES = DefinitionKind(
    "study", "studies", resources.files("evals").joinpath("studies", "packaged"), StudyError
)


def load_study(name_or_path: str) -> Study:
    """Load a packaged study by its name, or a file of the user's.

    Raises:
        StudyError: It does not exist, is no YAML, or a field is unknown or wrong.
    """
    read = STUDIES.read(name_or_path)
    study = STUDIES.check(Study, read.values, name_or_path)
    rows = {
        row: values.model_copy(update={"recipe": _located(values.recipe, read.folder)})
        for row, values in study.rows.items()
    }
    return study.model_copy(update={"recipe": _located(study.recipe, read.folder), "rows": rows})


def _located(recipe: str, folder: Path) -> str:
    return str(folder / recipe) if recipe and (folder / recipe).is_file() else recipe


def _require(name: str, known: Mapping[str, object], what: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} {name!r}, which is not there{hint}")


def adjusted(study: Study, *, seeds: str | None, limit: int | None, encoder: str | None) -> Study:
    """A study with what a command line replaces; None replaces nothing.

    Args:
        study: As loaded.
        seeds: Whole numbers with commas between them.
        limit: Of training examples.
        encoder: Of every row's backbone.

    Raises:
        StudyError: The seeds are no such list.
    """
    changes: dict[str, Any] = {}
    if seeds is not None:
        try:
            numbers = tuple(int(part) for part in seeds.split(","))
        except ValueError:
            raise StudyError(f"--seeds {seeds}: give whole numbers with commas, such as 1,2,3") from None
        if len(set(numbers)) != len(numbers) or min(numbers) < 1:
            raise StudyError(f"--seeds {seeds}: seeds are different numbers from 1")
        changes["seeds"] = numbers
    if limit is not None:
        changes["limit"] = limit
    if encoder is not None:
        changes["set"] = {**study.set, "model.encoder": encoder}
    return study.model_copy(update=changes)
