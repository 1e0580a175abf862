"""The table of cases as JSON: a list a column, and what repeats as places in tables of names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from runs.case_summary import CaseSummary
from viewer.addresses import Addresses

_Name = TypeVar("_Name", bound=Hashable)


class _Names(Generic[_Name]):
    """Names in the order of their first use."""

    def __init__(self) -> None:
        self.places: dict[_Name, int] = {}

    def place(self, name: _Name | None) -> int:
        """Where the name stands; -1 for none."""
        return -1 if name is None else self.places.setdefault(name, len(self.places))


def rows_of(summaries: Sequence[CaseSummary], run: str, addresses: Addresses) -> dict[str, Any]:
    """What `table.js` reads.

    Args:
        summaries: The cases, all or those that are new.
        run: The run's name.
        addresses: Where pages of cases are.

    Returns:
        `names` holds tables of statuses, errors, intents, flags, nodes and routes (lists of places in
        `nodes`); `columns` a list for each column, where `status`, `error`, `intent`, `flags` and `route` are
        places in those tables and -1 is none. A case's page is at `link` with its quoted id, or where `links`
        is there, at its own entry.
    """
    statuses, errors, intents = _Names[str](), _Names[str](), _Names[str]()
    flags, nodes, routes = _Names[str](), _Names[str](), _Names[tuple[str, ...]]()
    columns: dict[str, list[Any]] = {
        "id": [row.case_id for row in summaries],
        "position": [row.position for row in summaries],
        "status": [statuses.place(row.status) for row in summaries],
        "error": [errors.place(row.error) for row in summaries],
        "intent": [intents.place(row.intent) for row in summaries],
        "flags": [[flags.place(flag) for flag in row.flags] for row in summaries],
        "route": [routes.place(row.route) for row in summaries],
        "tokens": [row.input_tokens + row.output_tokens for row in summaries],
        "seconds": [None if row.seconds is None else round(row.seconds, 2) for row in summaries],
        **{
            name: [getattr(row, name) for row in summaries]
            for name in ("sentences", "essential", "votes", "divided", "wrong", "calls")
        },
    }
    known_routes = [[nodes.place(node) for node in route] for route in routes.places]
    link = addresses.case(run, "")
    links = [addresses.case(run, row.case_id) for row in summaries]
    quoted = all(
        address == link + quote(row.case_id, safe="") for address, row in zip(links, summaries, strict=True)
    )
    return {
        "names": {
            "status": list(statuses.places),
            "error": list(errors.places),
            "intent": list(intents.places),
            "flag": list(flags.places),
            "node": list(nodes.places),
            "route": known_routes,
        },
        "columns": columns,
        "link": link,
        "links": None if quoted else links,
    }
