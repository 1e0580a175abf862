"""A report of a run by the items of TRIPOD-LLM (Gallifant et al., Nature Medicine 31, 60-69, 2025).

Items that the run recorded are filled in; the others are left to the author. Contains only names, hashes,
counts and scores: no text of a case, a model or a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases.texts import plural, printable
from evals.run_scores import flat_scores, run_scores
from evals.scoring.gold import ScoringError
from graph.system import find_system
from runs.record.folder import RunFolder
from runs.record.manifest import Manifest
from runs.record.purged import purged_of
from runs.review.reviews import Reviews
from storage.errors import InputError

FOR_THE_AUTHOR = "for the author"

_TOPICS = {
    "1": "Title: kind of study, task, population, outcome",
    "2": "Abstract (2a to 2l)",
    "3a": "Healthcare context, use case, existing approaches",
    "3b": "Target population, intended use and users",
    "4": "Objectives",
    "5a": "Sources of data",
    "5b": "Description and distribution of the data",
    "5c": "Dates of the oldest and newest text",
    "5d": "Pre-processing and quality checks",
    "5e": "Missing data and omissions",
    "6a": "Name, version and date of use of the model",
    "6b": "Architecture, prompts and settings of inference",
    "6c": "Training, tuning and alignment of the model",
    "6d": "Initial and post-processed output",
    "6e": "Classification: probabilities and thresholds",
    "7a": "Metrics of the quality of output",
    "7b": "Relevance of the metrics for use",
    "7c": "Outcome and how predictions were calculated",
    "7d": "Assessment by people",
    "7e": "Comparison with other models, people, benchmarks",
    "8": "Annotation: guidelines, annotators, agreement (8a to 8c)",
    "9a": "Design and selection of prompts",
    "9b": "Data from which prompts were made",
    "10": "Pre-processing before summarisation",
    "11": "Instruction tuning and alignment",
    "12": "Compute",
    "13": "Ethics approval and consent",
    "14a": "Funding",
    "14b": "Conflicts of interest",
    "14c": "Protocol",
    "14d": "Registration",
    "14e": "Availability of the data",
    "14f": "Availability of the code",
    "15": "Involvement of patients and the public",
    "16a": "Flow of cases",
    "16b": "Characteristics by source and split",
    "16c": "Distribution in development and evaluation",
    "16d": "Cases in each analysis",
    "17": "Performance",
    "18": "Results of updating the model",
    "19": "Interpretation, limitations, use in context, next steps (19a to 19g)",
}


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the list.

    Attributes:
        number: As TRIPOD-LLM counts.
        topic: Its topic, in our words.
        known: Recorded names and values; empty if only the author knows them.
    """

    number: str
    topic: str
    known: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Card:
    """The report of a run."""

    run: str
    items: list[Item]

    def as_json(self) -> dict[str, Any]:
        items = [
            {"item": one.number, "topic": one.topic, "known": dict(one.known) or None} for one in self.items
        ]
        return {"run": self.run, "items": items}

    def as_markdown(self) -> str:
        lines = [f"# Report of {code(self.run)} by TRIPOD-LLM", ""]
        lines += ["Item numbers follow TRIPOD-LLM (doi 10.1038/s41591-024-03425-5). Items the run does not"]
        lines += [f"know are marked *{FOR_THE_AUTHOR}*; the others still need the author's check.", ""]
        for one in self.items:
            known = [f"- {name}: {code(value)}" for name, value in one.known]
            lines += [f"## {one.number} {one.topic}", "", *(known or [f"*{FOR_THE_AUTHOR}*"]), ""]
        return "\n".join(lines)


def make_card(run: RunFolder, keys: Sequence[Path] = (), case_files: Sequence[Path] = ()) -> Card:
    """The report of a run, as far as the run and its key, or the files given instead, tell.

    Raises:
        RunError: A file of the run is damaged.
    """
    manifest = run.manifest
    scores, no_scores = _scores(run, keys, case_files)
    known: dict[str, list[tuple[str, str]]] = {
        "5a": _data(manifest),
        "5e": _flow(manifest),
        "6a": _models(manifest),
        "6b": _settings(manifest),
        "6d": [("results of a case", ", ".join(["labels", *find_system(manifest.system).results]))],
        "6e": [*_values(manifest.recipe, _THRESHOLDS)],
        "7a": [("metrics", ", ".join(dict.fromkeys(name for name, _ in scores)))] if scores else [],
        "7d": _reviews(run),
        "9a": [
            ("version", str(manifest.recipe.get("prompts"))),
            *((f"prompt {name}", f"SHA-256 {digest}") for name, digest in manifest.prompts.items()),
        ],
        "9b": _demonstrations(manifest),
        "12": _compute(manifest),
        "14f": [("evigraph", manifest.evigraph), *sorted(manifest.versions.items())],
        "16a": _flow(manifest),
        "17": scores or ([("no scores", no_scores)] if no_scores else []),
    }
    items = [Item(number, topic, known.get(number, [])) for number, topic in _TOPICS.items()]
    return Card(str(run.path), items)


def _data(manifest: Manifest) -> list[tuple[str, str]]:
    inputs = manifest.inputs
    ids = None if inputs.case_ids is None else f"{len(inputs.case_ids):,} chosen"
    chosen = {"limit": inputs.limit, "case ids": ids, "shard": inputs.shard}
    return [
        *(("case file", path) for path in inputs.paths),
        *(("key file", path) for path in inputs.keys),
        ("SHA-256 of case files and keys", inputs.sha256),
        ("cases", f"{inputs.cases:,}"),
        *((name, str(value)) for name, value in chosen.items() if value is not None),
    ]


def _flow(manifest: Manifest) -> list[tuple[str, str]]:
    counts = manifest.counts
    errors = [(f"failed: {name}", f"{count:,}") for name, count in counts.errors.items()]
    return [
        ("cases", f"{manifest.inputs.cases:,}"),
        ("done", f"{counts.done:,}"),
        ("failed", f"{counts.failed:,}"),
        *errors,
        ("waiting for a person", f"{counts.waiting:,}"),
        ("not run", f"{max(0, manifest.inputs.cases - counts.total):,}"),
    ]


def _models(manifest: Manifest) -> list[tuple[str, str]]:
    found = [
        (f"model of {role}", " ".join(filter(None, (model.name, model.revision))))
        for role, model in manifest.models.items()
    ]
    dates = [session.started for session in manifest.sessions]
    return [*found, ("used", f"{dates[0]} to {dates[-1]}")] if dates else found


def _settings(manifest: Manifest) -> list[tuple[str, str]]:
    lengths = [(role, model.context_length) for role, model in manifest.models.items()]
    return [
        ("system", manifest.system),
        ("recipe", f"{manifest.recipe_origin}, SHA-256 {manifest.recipe_sha256}"),
        *((f"set for this run: {name}", str(value)) for name, value in manifest.recipe_overrides.items()),
        *_values(manifest.recipe, _SETTINGS),
        *((f"context length of {role}", f"{length:,}") for role, length in lengths if length),
    ]


_SETTINGS = ("seed", "temperature", "max_tokens", "votes", "reply", "corrections", "reflection")
_THRESHOLDS = ("threshold", "minimum_votes", "cutoff", "model_cutoff", "rule", "ranker", "evidence", "voters")


def _values(recipe: Mapping[str, Any], names: Iterable[str], above: str = "") -> list[tuple[str, str]]:
    """Values of a recipe by their dotted names, those that are set."""
    found = []
    wanted = tuple(names)
    for name, value in recipe.items():
        if isinstance(value, dict):
            found += _values(value, wanted, f"{above}{name}.")
        elif value is not None and any(name == one or name.endswith(f"_{one}") for one in wanted):
            found.append((f"{above}{name}", str(value)))
    return found


def _demonstrations(manifest: Manifest) -> list[tuple[str, str]]:
    """Demonstrations in the prompts, and held-out ids."""
    found = [
        (f"{name} {key}", str(value))
        for name, record in manifest.resources.items()
        for key, value in record.items()
        if isinstance(value, str | int | float)
    ]
    held_out = manifest.recipe.get("held_out") or []
    return [*found, ("held out", plural(len(held_out), "case"))] if found else []


def _reviews(run: RunFolder) -> list[tuple[str, str]]:
    latest = Reviews(run.path).latest()
    if not latest:
        return []
    people = {review.reviewer for review in latest.values()}
    return [("reviewed", plural(len(latest), "case")), ("reviewers", f"{len(people):,}")]


def _compute(manifest: Manifest) -> list[tuple[str, str]]:
    sessions = manifest.sessions
    used = manifest.used(0, 0, 0)
    processor = [one.processor_seconds for one in sessions if one.processor_seconds is not None]
    found = [
        ("sessions", f"{len(sessions):,}"),
        ("calls", f"{used.calls:,}"),
        ("replayed calls", f"{used.replayed:,}"),
        ("tokens read", f"{used.input_tokens:,}"),
        ("tokens written", f"{used.output_tokens:,}"),
    ]
    if manifest.seconds is not None:
        found.append(("seconds", f"{manifest.seconds:,.1f}"))
    if processor:
        found.append(("processor seconds of this process", f"{sum(processor):,.1f}"))
    if used.cost is not None:
        found.append(("cost", f"{used.cost:,.4f}"))
    return found


def _scores(
    run: RunFolder, keys: Sequence[Path], case_files: Sequence[Path]
) -> tuple[list[tuple[str, str]], str]:
    """Scores with their intervals, or why there are none."""
    purged = purged_of(run.path)
    try:
        scores = run_scores(run, keys, case_files) if purged is None else purged.scores
        return list(flat_scores(scores)), ""
    except (ScoringError, InputError):
        return [], "the run and its key share nothing that can be scored, or a file is missing"


def code(text: str) -> str:
    """Text as code of Markdown, on one line: nothing in it is markup."""
    plain = " ".join(printable(text).replace("`", "'").split())
    return f"`{plain}`"
