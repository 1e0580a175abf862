"""Templates and assets of pages. Text of cases is data: it is escaped, and never a template."""

from __future__ import annotations

from functools import cache
from importlib import resources

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader

from access.sessions import signed_in
from evals.pages.page import new_environment

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}


@cache
def environment() -> Environment:
    """The templates of `viewer/templates`, and those of reports below `reports/`."""
    made = new_environment("viewer")
    reports = PrefixLoader({"reports": PackageLoader("evals.pages")})
    made.loader = ChoiceLoader([PackageLoader("viewer"), reports])
    made.globals["signed_in"] = signed_in
    made.filters |= {"duration": duration, "number": number, "roughly": roughly}
    return made


def render(template: str, **values: object) -> str:
    """A page as HTML."""
    return environment().get_template(template).render(**values)


def duration(seconds: float | None) -> str:
    """Seconds for people: `320 ms`, `4.8 s`, `12 min 30 s`, `3 h 5 min`."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def roughly(seconds: float) -> str:
    """An expected time: `under a minute`, `about 14 min`, `about 2 h 5 min`."""
    minutes = round(seconds / 60)
    if not minutes:
        return "under a minute"
    return "about " + (f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min")


def number(value: float | None) -> str:
    """With commas between thousands."""
    return "-" if value is None else f"{value:,}"


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Content and media type of each file of `viewer/assets`, by name: a request never names a path."""
    found = {}
    for file in (resources.files("viewer") / "assets").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None and file.is_file():
            found[file.name] = (file.read_bytes(), kind)
    return found
