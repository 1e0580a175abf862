"""When a BioASQ question was written: its id tells, the file does not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")


def question_year(question_id: str) -> int | None:
    """The year of a Mongo ObjectId, whose first eight hexadecimal digits are seconds since 1970 (UTC).

    Returns:
        None where the id is no ObjectId: 24 hexadecimal digits.
    """
    if not _OBJECT_ID.fullmatch(question_id):
        return None
    return datetime.fromtimestamp(int(question_id[:8], 16), UTC).year


def of_recent_years(question_ids: Iterable[str], years: int) -> list[str]:
    """Keep the questions of the newest year and of so many years before it, in their order.

    An id without a year is left out: nothing says that its question is recent.
    """
    dated = {id_: year for id_ in question_ids if (year := question_year(id_)) is not None}
    newest = max(dated.values(), default=0)
    return [id_ for id_, year in dated.items() if year >= newest - years]
