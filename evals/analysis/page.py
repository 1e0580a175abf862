"""An analysis of votes as one HTML file: numbers and ids alone, no text of a case."""

from __future__ import annotations

from pathlib import Path

from cases.files import write_atomically
from evals.analysis.plots import confusion_plot, precision_recall_plot, vote_counts_plot
from evals.analysis.report import Analysis
from evals.pages.environment import drawn, page_environment


def write_page(path: Path, found: Analysis) -> None:
    """Write the page.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, [render(found).encode()])


def render(found: Analysis) -> str:
    """The page."""
    agreement, intents = found.agreement, found.intents
    return (
        page_environment("evals.analysis")
        .get_template("analysis.html")
        .render(
            found=found,
            curve=drawn(precision_recall_plot(found.by_threshold, found.threshold))
            if found.by_threshold
            else None,
            counts=drawn(vote_counts_plot(agreement.by_count, found.votes))
            if agreement is not None and agreement.by_count
            else None,
            confusion=drawn(confusion_plot(intents.confusion)) if intents is not None else None,
        )
    )
