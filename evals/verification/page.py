"""A verified text as one HTML file: its lines beside its source, no scripts, nothing fetched."""

from __future__ import annotations

from evals.pages.environment import page_environment
from evals.verification.report import Report


def render(report: Report, back: str | None = None) -> str:
    """The page. It holds both texts whole, so it is as confidential as they are.

    Args:
        report: What was found.
        back: Where a link at the top leads; None gives none.
    """
    cited: dict[int, list[int]] = {}
    for number, line in enumerate(report.verification.lines, start=1):
        for evidence in line.evidence:
            cited.setdefault(evidence.sentence, []).append(number)
    return (
        page_environment("evals.verification")
        .get_template("verification.html")
        .render(report=report, verification=report.verification, cited=cited, back=back)
    )
