"""What a run predicts of its cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cases.submissions.prediction import CitedSentence, Prediction
from runs.folder import Line, RunFolder


def predictions(run: RunFolder) -> Iterator[Prediction]:
    """Stream the predictions of the cases that are done, in the order of `cases.jsonl`.

    A case that failed or waits for a person predicts nothing, whatever it came to before: it is missing,
    never empty.
    """
    for line in run.cases():
        if line["status"] == "done":
            yield prediction_of(line)


def prediction_of(line: Line) -> Prediction:
    """Read the prediction in the line of a case that is done; what the run did not ask for is None.

    Whose answer was aligned decides: links to the clinician's answer are subtask 4 of 2026, and those of
    the generated one are the citations of 2025. Runs of older versions lack both.
    """
    labels: Mapping[str, str] = line["labels"] or {}
    alignment: Mapping[str, list[str]] = line.get("alignment") or {}
    aligned = line.get("aligned_answer")
    return Prediction(
        case_id=line["case_id"],
        question=line.get("interpreted_question"),
        evidence=tuple(id_ for id_, label in labels.items() if label == "essential") if labels else None,
        answer=line["answer"],
        links=tuple((id_, cited) for id_, ids in alignment.items() for cited in ids)
        if aligned == "clinician"
        else None,
        cited_answer=tuple(
            CitedSentence(sentence["text"], tuple(alignment.get(sentence["id"], ())))
            for sentence in line.get("answer_sentences") or ()
        )
        if aligned == "generated"
        else None,
    )
