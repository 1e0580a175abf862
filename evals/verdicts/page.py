"""Tables of verdicts as one HTML file: numbers alone, no text of a question or a document."""

from __future__ import annotations

from pathlib import Path

from cases.files import write_atomically
from evals.pages.environment import page_environment
from evals.verdicts.tables import TITLES, VerdictTables


def write_page(path: Path, found: VerdictTables) -> None:
    """Write the page.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, [render(found).encode()])


def render(found: VerdictTables) -> str:
    """The page."""
    template = page_environment("evals.verdicts").get_template("verdicts.html")
    return template.render(found=found, titles=TITLES)
