"""What a reader has to know of a table before a figure of it means anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evals.studies.data import HELD_OUT, TUNING, domain_set
from evals.studies.definition import TableName
from evals.studies.jobs import Plan

_NOTES: Mapping[TableName, str] = {
    "tamu-1": (
        "Strict alone: data without supplementary labels have no lenient columns. BM25, last three, random"
        " (the best three) and all have their own cut-off, since their scores are no probabilities; BM25"
        " takes a tuned k where the others do."
    ),
    "tamu-2": "Micro precision, recall and F1.",
    "abridge-2": (
        "Corpus F-score: all decisions on all sentences together. One threshold for all queries; a query may"
        " have no evidence. BM25 takes three."
    ),
    "abridge-3": (
        "F-scores of all sentences together. One threshold for all queries, from the tuning part of the"
        " domain that is trained on."
    ),
    "abridge-5": (
        "Precision, recall and F of characters, pooled. Noise in the test queries alone: each token dropped"
        " with p = 0.1, swapped with one of the next two with p = 0.1, each query joined with the next of its"
        " document with p = 0.1 (the paper gives no rates). Human agreement is not measured."
    ),
    "abridge-9": (
        "Corpus F-score: all decisions on all sentences together. A row without an addition has LSTM."
    ),
}


def caption(table: TableName, plan: Plan) -> str:
    """Data, backbone, parts, seeds, and what is special in the table."""
    sentences = [plan.study.about.strip(), *_training(table, plan), _parts(table, plan), _NOTES[table]]
    if table == "abridge-3":
        sentences.append(_domains(plan))
    sentences.append(_intervals(plan))
    return " ".join(filter(None, sentences))


def _training(table: TableName, plan: Plan) -> list[str]:
    rows = [plan.study.rows[name] for name in plan.study.tables[table]]
    jobs = [job for job in plan.jobs if job.row in {plan.owner[name] for name in plan.study.tables[table]}]
    recipes = [job.recipe for job in jobs if job.recipe is not None]
    if not recipes:
        return []
    backbones = ", ".join(sorted({Path(recipe.model.encoder).name for recipe in recipes}))
    epochs = "/".join(map(str, sorted({recipe.epochs for recipe in recipes})))
    counts = "/".join(map(str, sorted({plan.trained_on[name] for name in plan.study.tables[table]})))
    found = [f"Backbone {backbones}, epochs {epochs}, {counts} training examples."]
    pretrained = {len(job.pretraining) for job in jobs if job.pretraining}
    if any(row.pretrain for row in rows) and pretrained:
        passes = plan.study.pretraining.epochs
        found.append(
            f"++: before that {passes} epoch{'s' * (passes > 1)} over {max(pretrained)} examples of the"
            " pre-training data."
        )
    return found


def _parts(table: TableName, plan: Plan) -> str:
    study = plan.study
    sentence = (
        f"Parts by group, equal for all rows and seeds: {study.split.held_out:.0%} of the groups held out for"
        f" these figures ({plan.counts[HELD_OUT]} cases), {study.split.tuning:.0%} of the rest for the choice"
        f" of epoch and cut-off ({plan.counts[TUNING]} cases)."
    )
    if plan.seen_documents and table != "abridge-3":
        sentence += (
            f" {plan.seen_documents} held-out cases are on documents that other queries were trained on."
        )
    return sentence


def _domains(plan: Plan) -> str:
    sizes = ", ".join(f"{name} {plan.counts[domain_set(name)]}" for name in plan.study.domains)
    sentence = f"Cases: {sizes}."
    own = [name for name, domain in plan.study.domains.items() if domain.of == "pretrain"]
    if own and any(row.pretrain for row in plan.study.rows.values()):
        sentence += (
            f" Of the collection of the pre-training data (other articles): {', '.join(own)};"
            " there ++ is no pure shift of domain."
        )
    return sentence


def _intervals(plan: Plan) -> str:
    seeds = ", ".join(map(str, plan.study.seeds))
    spread = "brackets: 95 % t-intervals over seeds" if len(plan.study.seeds) > 1 else "no intervals"
    return (
        f"Means over seeds {seeds}; {spread}; seeds change weights and order. Differences: in"
        " the headline column, of counts summed over seeds; p: paired randomisation test of that over"
        " groups of cases."
    )
