"""From a run to what can be handed in to BioASQ, and why some of it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cases.bioasq_submissions.forms import entry_of
from cases.bioasq_submissions.prediction import (
    MOST_ENTRY_CHARACTERS,
    MOST_FACTOID_ENTRIES,
    MOST_IDEAL_WORDS,
    MOST_LIST_ENTRIES,
    BioasqPrediction,
    BioasqTask,
)
from cases.bioasq_submissions.validate import expected_of, find_faults
from cases.biomedical import QuestionType
from cases.submissions.fault import Fault, worst_first
from evals.bioasq.recorded import predictions_of_run
from evals.scoring.run_submission import undone
from graph.recipe import Recipe
from runs.folder import Line, RunFolder
from runs.inputs import recorded_cases

_LACKS: Mapping[BioasqTask, tuple[str, str]] = {
    "bioasq-a": ("no documents", "documents.phase: a or both"),
    "bioasq-a+": ("no answers from documents of its own", "documents.phase: both"),
    "bioasq-b": ("no answers", "documents.phase: b"),
}


@dataclass(frozen=True, slots=True)
class BioasqSubmission:
    """What a run can hand in to a phase.

    Attributes:
        entries: In the order of the run's questions.
        faults: The refused ones stand in the way of handing in.
        filled: Ids of the questions that stand there without an answer because they have none.
    """

    entries: tuple[dict[str, Any], ...]
    faults: tuple[Fault, ...]
    filled: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether it breaks a rule, or a question has nothing to hand in."""
        return any(fault.severity == "refused" for fault in self.faults)


def prepare(run: RunFolder, task: BioasqTask, *, fill_missing: bool = False) -> BioasqSubmission:
    """Collect what a run says and check it against the run's own questions.

    Answers that are longer than BioASQ takes are cut, each with a fault that says so.

    Args:
        run: Where they come from; its question files are read again for the types.
        task: The phase.
        fill_missing: Hand in a question that the run says nothing of without an answer.

    Raises:
        InputError: The question files have moved or cannot be read.
    """
    lack = _lack_of_all(run, task)
    if lack is not None:
        return BioasqSubmission((), (lack,), ())
    expected = expected_of(recorded_cases(run.manifest))
    lines = {line["case_id"]: line for line in run.cases()}
    said = {one.id: one for one in predictions_of_run(run) if _says_something(one, task)}
    if not said:
        nothing = Fault(
            "refused", None, str(run.path), f"the run has {_LACKS[task][0]}", f"evigraph show {run.path}"
        )
        return BioasqSubmission((), (nothing,), ())
    entries: list[dict[str, Any]] = []
    faults: list[Fault] = []
    filled: list[str] = []
    for id_ in dict.fromkeys([*expected, *lines]):
        if id_ in said:
            kept, cuts = _within_limits(said[id_], expected.get(id_))
            entries.append(entry_of(kept, task))
            faults += cuts
        elif fill_missing:
            entries.append(entry_of(BioasqPrediction(id_), task))
            filled.append(id_)
        else:
            faults.append(_missing(run, task, id_, lines.get(id_)))
    # A question that could not be read has no type, and is one of the test set all the same.
    known = {id_: expected.get(id_) for id_ in dict.fromkeys([*expected, *lines])}
    handed_in = {entry["id"]: known[entry["id"]] for entry in entries}
    found = [one for one in find_faults(entries, task, handed_in) if one.case not in filled]
    return BioasqSubmission(tuple(entries), tuple(worst_first([*faults, *found])), tuple(filled))


def _lack_of_all(run: RunFolder, task: BioasqTask) -> Fault | None:
    phase = Recipe.model_validate(run.manifest.recipe).documents.phase
    wrong = {"bioasq-a": phase == "b", "bioasq-a+": phase != "both", "bioasq-b": phase == "a"}[task]
    if not wrong:
        return None
    what, field = _LACKS[task]
    return Fault("refused", None, str(run.path), f"the run has {what}", f"Run with a recipe that has {field}")


def _says_something(said: BioasqPrediction, task: BioasqTask) -> bool:
    if task == "bioasq-a":
        return bool(said.documents)
    return said.exact_answer is not None or bool(said.ideal_answer)


def _missing(run: RunFolder, task: BioasqTask, id_: str, line: Line | None) -> Fault:
    if line is None or line["status"] != "done":
        return undone(run, id_, line)
    remedy = f"evigraph show {run.path} {id_} tells why; --fill-missing hands the question in without it"
    return Fault("refused", id_, "", f"it has {_LACKS[task][0]}", remedy)


def _within_limits(said: BioasqPrediction, kind: QuestionType | None) -> tuple[BioasqPrediction, list[Fault]]:
    """Cut what is too long. A factoid's entries are ranked, so that its last ones go without a word."""
    cuts: list[Fault] = []

    def told(field: str, fault: str) -> None:
        cuts.append(Fault("penalised", said.id, field, fault, "Shorten it in the run"))

    kept = said
    if isinstance(said.exact_answer, tuple):
        entries = tuple(names for names in said.exact_answer if names and names[0].strip())
        if kind == "factoid":
            entries = entries[:MOST_FACTOID_ENTRIES]
        else:
            short = tuple(names for names in entries if len(names[0]) <= MOST_ENTRY_CHARACTERS)
            if len(short) < len(entries):
                left_out = len(entries) - len(short)
                told("exact_answer", f"{left_out} entries above {MOST_ENTRY_CHARACTERS} characters left out")
            if len(short) > MOST_LIST_ENTRIES:
                told("exact_answer", f"{len(short)} entries, cut to {MOST_LIST_ENTRIES}")
            entries = short[:MOST_LIST_ENTRIES]
        kept = replace(kept, exact_answer=entries or None)
    words = (said.ideal_answer or "").split()
    if len(words) > MOST_IDEAL_WORDS:
        told("ideal_answer", f"{len(words)} words, cut to {MOST_IDEAL_WORDS}")
        kept = replace(kept, ideal_answer=" ".join(words[:MOST_IDEAL_WORDS]))
    return kept, cuts
