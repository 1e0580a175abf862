"""Answered questions that prompts show: from the user's file, or the packaged samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from cases.biomedical import QuestionType
from cases.errors import InputError
from cases.load import find_cases
from cases.records import Case, InvalidCase
from graph.recipe import Recipe, RecipeError
from nodes.answer.shots import can_be_shown
from nodes.question.question_type import QUESTION_TYPES
from runs.manifest import AnsweredQuestions, Manifest

_READERS = frozenset({"answer_exactly", "answer_ideally"})


@dataclass(frozen=True, slots=True)
class Shots:
    """Answered questions by type, none of them a question of the run; empty where none are wanted.

    Attributes:
        by_type: In the order of the file.
        path: The file, None where there is none.
        sha256: Of the file.
    """

    by_type: Mapping[QuestionType, Sequence[Case]] = field(default_factory=dict)
    path: Path | None = None
    sha256: str = ""


def open_shots(
    recipe: Recipe,
    nodes: Collection[str],
    file: Path | None,
    running: Iterable[Case | InvalidCase],
    origin: str,
) -> Shots:
    """Read the questions that prompts may show, where the recipe wants any.

    Args:
        recipe: What is wanted.
        nodes: Of its graph.
        file: The user's; None for the packaged samples.
        running: The questions of the run, which are never shown; read only where shots are wanted.
        origin: Where the recipe came from, for messages.

    Raises:
        RecipeError: A file is given, and the graph shows none.
        InputError: The file, or it has nothing that can be shown.
    """
    if _READERS.isdisjoint(nodes):
        if file is not None:
            raise RecipeError(
                f"recipe {origin}: the graph {recipe.system!r} shows no answered questions; leave --shots out"
            )
        return Shots()
    if not recipe.exact.shots or not recipe.documents.answers:
        return Shots()
    path = file or _packaged()
    if not path.is_file() and file is None:
        return Shots()
    source = find_cases([path])
    usable = [case for case in source if isinstance(case, Case) and can_be_shown(case)]
    if file is not None and not usable:
        raise InputError(
            path,
            "none of its questions can be shown",
            "A shot has a type, snippets, an ideal answer, and an exact answer unless it is a summary",
        )
    return Shots(group_by_type(usable, {case.id for case in running}), path, source.digest())


def group_by_type(cases: Iterable[Case], excluded: Collection[str]) -> dict[QuestionType, list[Case]]:
    """Questions by their type, those with an excluded id left out."""
    found: dict[QuestionType, list[Case]] = defaultdict(list)
    for case in cases:
        if case.id not in excluded and case.biomedical is not None and case.biomedical.type is not None:
            found[case.biomedical.type].append(case)
    return {type_: found[type_] for type_ in QUESTION_TYPES if type_ in found}


def describe_shots(shots: Shots) -> AnsweredQuestions | None:
    """What a run records of them."""
    if shots.path is None:
        return None
    return AnsweredQuestions(
        path=str(shots.path.resolve()),
        sha256=shots.sha256,
        count=sum(len(cases) for cases in shots.by_type.values()),
    )


def recorded_shots(manifest: Manifest) -> Path | None:
    """Where a run's shots were when it began."""
    return Path(manifest.shots.path) if manifest.shots else None


def _packaged() -> Path:
    return Path(str(resources.files("cases").joinpath("samples", "bioasq", "questions.json")))
