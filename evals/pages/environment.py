"""How pages are made of templates. Text of cases is data: it is escaped, and never a template."""

from __future__ import annotations

import re

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# Control characters are no text of a page, and bidirectional overrides could hide what a note says.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def page_environment(package: str) -> Environment:
    """Templates of a package, which may extend `base.html`; escaped, and strict about missing names."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("evals.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    return environment


def plain(text: str) -> str:
    """Replace characters that are no text of a page."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def drawn(svg: str) -> Markup:
    """A plot for a template. It is made of numbers and names by matplotlib, which escapes text itself."""
    return Markup(svg)  # noqa: S704
