"""An experiment is one YAML file: a data set, a recipe, and the cells that differ from it.

A cell is a run of a recipe, or a ranker that is trained once per seed.
"""

from __future__ import annotations

import difflib
import itertools
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from cases.definitions import DefinitionKind, Section
from evals.errors import ExperimentError
from graph.recipe import FLAGSHIP
from serving.policy.fetched import InputPath

_AnySection = TypeVar("_AnySection", bound=Section)


RankerTable = Literal["1", "2", "abridge-2", "abridge-3", "abridge-5", "abridge-9"]
"""TAMU 2026: 1 objectives, 2 cut-offs. Abridge 2025: 2 fusion types, 3 domains, 5 noise, 9 LSTM."""

Table = Literal["scores", "evidence", "3", "4", "6", "7"] | RankerTable
"""`scores` has the main scores of every task, whatever the system. `evidence` compares recipes of any system
by the evidence they find and what that costs.

Or a table of TAMU 2026: 3 steps of evidence, 4 models, 6 demonstrations, 7 recall of evidence. Or one
of rankers."""

BASELINES = ("bm25", "logistic")
"""Rankers without a training recipe: the same at every seed."""

CellName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+=,-]{0,79}$")]
"""Also the name of the cell's folder."""


_LISTED = BeforeValidator(lambda given: [given] if isinstance(given, str) else given)
Paths = Annotated[tuple[InputPath, ...], _LISTED]
Models = Annotated[tuple[str, ...], _LISTED]
"""A single path or model may be given without a list."""


def _named(tables: Any) -> Any:
    """YAML reads the names of tables as numbers."""
    return {str(name): cells for name, cells in tables.items()} if isinstance(tables, dict) else tables


class Cell(Section):
    """One run of the grid, or one ranker.

    Attributes:
        recipe: A packaged recipe, or a file; None takes the experiment's. May be of another system.
        ranker: A packaged training recipe, a file of one, or a baseline; None makes the cell a run.
        set: Values of the recipe by dotted field, such as `evidence.votes` or, of a ranker, `model.fusion`.
        model: Model strings as `--model` takes them; empty takes the experiment's.
    """

    recipe: str | None = None
    ranker: str | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    model: Models = ()

    @model_validator(mode="after")
    def _a_ranker_is_not_a_run(self) -> Cell:
        if self.ranker is not None and (self.recipe is not None or self.model):
            raise ValueError("a ranker takes neither a recipe of runs nor a model")
        if self.ranker in BASELINES and self.set:
            raise ValueError(f"{self.ranker} has no values to set")
        return self


class OtherExamples(Section):
    """Examples of the second data set.

    Attributes:
        window: Articles are shortened to as many sentences around evidence; None reads their abstracts.
        limit: Most examples.
    """

    window: int | None = Field(None, ge=2)
    limit: int | None = Field(None, ge=1)


class Rankers(Section):
    """Common settings of an experiment's rankers.

    Attributes:
        data: Labelled examples: files, or folders of one data set each.
        pretrain: A second data set, for rankers that set `pretrain.epochs` and for `domains`.
        set: Values of all training recipes, by dotted field; those of a cell come after them.
        seeds: Each ranker is trained once with each. They change weights and order, never the parts.
        limit: Most training examples.
        pretraining: Which of the second data set are learned from before the training.
        domains: Which of them table abridge-3 reports on, by the name of the column. They are held out.
    """

    data: tuple[Path, ...] = ()
    pretrain: tuple[Path, ...] = ()
    set: dict[str, Any] = Field(default_factory=dict)
    seeds: tuple[Annotated[int, Field(ge=1)], ...] = Field((1, 2, 3), min_length=1)
    limit: int | None = Field(None, ge=1)
    pretraining: OtherExamples = OtherExamples(window=20, limit=150)
    domains: dict[str, OtherExamples] = Field(default_factory=dict)


class Experiment(Section):
    """A grid. Paths are relative to the file.

    Attributes:
        about: Heading of the tables: which data these replace.
        recipe: A packaged recipe, or a file, of cells that name none.
        cases: Case files that all figures refer to.
        key: Key files; empty takes those next to the case files.
        tune_on: Case files of another split; thresholds are chosen there.
        tune_key: Their keys.
        demos: Pool of demonstrations, its folder or its URL; None is the packaged sample pool.
        corpus: Of published documents, for graphs that search one.
        index: Of their vectors, for recipes that compare those.
        model: Model strings of cells that name none.
        rankers: Data and settings of the cells that are rankers.
        cells: Runs and rankers by name.
        grid: Values by dotted field; every combination is a further cell.
        tables: Cells of each table, in the order of its rows. The others are compared with the first.
    """

    about: str = ""
    recipe: str = FLAGSHIP
    cases: Paths = ()
    key: Paths = ()
    tune_on: Paths = ()
    tune_key: Paths = ()
    demos: Path | None = None
    corpus: Path | None = None
    index: Path | None = None
    model: Models = ()
    rankers: Rankers = Rankers()
    cells: dict[CellName, Cell] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    tables: Annotated[dict[Table, list[CellName]], BeforeValidator(_named)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _tables_name_cells(self) -> Experiment:
        known = self.all_cells()
        if not known:
            raise ValueError("it has neither cells nor a grid")
        for table, names in self.tables.items():
            for name in names:
                if name not in known:
                    near = difflib.get_close_matches(name, known, n=1)
                    hint = f"; did you mean {near[0]!r}?" if near else ""
                    raise ValueError(f"table {table} names cell {name!r}, which is not there{hint}")
                if (table in get_args(RankerTable)) != (known[name].ranker is not None):
                    kind = "a run" if known[name].ranker is None else "a ranker"
                    raise ValueError(f"table {table} names cell {name!r}, which is {kind}")
        return self

    @property
    def places(self) -> dict[str, Path]:
        """Where resources are, by the name of their option."""
        given = {"demos": self.demos, "corpus": self.corpus, "index": self.index}
        return {name: path for name, path in given.items() if path is not None}

    def all_cells(self) -> dict[str, Cell]:
        """The named cells and every combination of the grid."""
        found = dict(self.cells)
        for values in itertools.product(*self.grid.values()) if self.grid else ():
            fields = dict(zip(self.grid, values, strict=True))
            name = ",".join(f"{field.rpartition('.')[2]}={value}" for field, value in fields.items())
            found[re.sub(r"[^A-Za-z0-9_.+=,-]", "-", name)] = Cell(set=fields)
        return found


_KIND = DefinitionKind(
    "experiment", "experiments", resources.files("evals").joinpath("experiments", "packaged"), ExperimentError
)


def load_experiment(name_or_path: str) -> Experiment:
    """Load a packaged experiment by its name, or a file of the user's.

    Raises:
        ExperimentError: It does not exist, is not YAML, or a field is unknown or wrong.
    """
    read = _KIND.read(name_or_path)
    return _located(_KIND.check(Experiment, read.values, name_or_path), read.folder)


def _located(section: _AnySection, folder: Path) -> _AnySection:
    """With paths below a folder."""
    changed: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        match value:
            case Path():
                changed[name] = folder / value
            case Section():
                changed[name] = _located(value, folder)
            case str() if name in ("recipe", "ranker") and (folder / value).is_file():
                changed[name] = str(folder / value)
            case tuple() if value and isinstance(value[0], Path):
                changed[name] = tuple(folder / path for path in value)
            case dict() if name == "cells":
                changed[name] = {key: _located(cell, folder) for key, cell in value.items()}
    return section.model_copy(update=changed)
