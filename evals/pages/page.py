"""Pages rendered from templates. Text of cases is data: it is escaped, and never a template."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cases.texts import plural, printable
from storage.files import write_atomically

if TYPE_CHECKING:
    from jinja2 import Environment

FEW_CASES = 50
"""Below so many labelled cases differences between rows are mostly chance."""


def render_page(template: str, **values: object) -> str:
    """A page: no scripts, nothing fetched, plots inside.

    Args:
        template: Extends `base.html`, the frame and the looks of all pages, and shows tables and plots with
            the macros of `parts.html`.
        values: Values of its names, functions included; a name without a value is an error.
    """
    return new_environment("evals.pages").get_template(template).render(few=FEW_CASES, **values)


def write_page(path: Path, page: str) -> None:
    """Write a page.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, [page.encode()])


@cache
def new_environment(package: str) -> Environment:
    """The templates of a package: escaped, strict about missing names, without control characters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.filters["plural"] = plural
    return made
