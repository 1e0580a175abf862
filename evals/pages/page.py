"""Pages made of templates. Text of cases is data: it is escaped, and never a template."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cases.files import write_atomically

if TYPE_CHECKING:
    from jinja2 import Environment

FEW_CASES = 50
"""Below so many labelled cases differences between rows are mostly chance."""

# Control characters are no text of a page, and bidirectional overrides could hide what a note says.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def render_page(template: str, **values: object) -> str:
    """A page: no scripts, nothing fetched, plots inside.

    Args:
        template: Extends `base.html`, the frame and the looks of all pages, and shows tables and plots with
            the macros of `parts.html`.
        values: What it names, functions among them; a name without a value is an error.
    """
    return _environment().get_template(template).render(few=FEW_CASES, **values)


def write_page(path: Path, page: str) -> None:
    """Write a page.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, [page.encode()])


def plain(text: str) -> str:
    """Replace characters that are no text of a page."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("evals.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
