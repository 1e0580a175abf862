"""Clinical acronyms with their long forms, which an encoder of everyday language may not know.

heiDS (ArchEHR-QA 2025, limitations) names the expansion before indexing as an open question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from cases.errors import InputError

_PACKAGED = "acronyms.yaml"
_REMEDY = "Write `acronyms:` and below it lines such as `CHF: heart failure`, with quotes around NO and ON"

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _AcronymFile(BaseModel):
    """A table.

    Attributes:
        extends: `packaged` adds to the packaged table, whose entries of the same name are replaced; `none`
            stands in its place.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    extends: Literal["packaged", "none"] = "packaged"
    acronyms: dict[Text, Text]


def load_acronyms(path: Path | None = None) -> Mapping[str, str]:
    """Long forms by acronym.

    Args:
        path: A YAML file that extends or replaces the packaged table; None is the packaged one.

    Raises:
        InputError: The file cannot be read, or is no table.
    """
    packaged = resources.files("ranking.packaged") / _PACKAGED
    if path is None:
        return _read(packaged.read_text("utf-8"), _PACKAGED).acronyms
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read: {error}") from error
    own = _read(text, path)
    return {**load_acronyms(), **own.acronyms} if own.extends == "packaged" else own.acronyms


def expand_acronyms(text: str, table: Mapping[str, str]) -> str:
    """Put the long form in brackets after each acronym.

    Only whole words of the very same letters count: no part of a word, and nothing beside a hyphen. A long
    form that stands there already is not repeated.

    Args:
        text: Of any kind.
        table: Long forms by acronym.
    """
    if not table:
        return text
    return _pattern(tuple(table)).sub(lambda found: _expanded(found, table), text)


def _expanded(found: re.Match[str], table: Mapping[str, str]) -> str:
    acronym = found[0]
    long_form = f"({table[acronym]})"
    after = found.string[found.end() :].lstrip()[: len(long_form)]
    return acronym if after.lower() == long_form.lower() else f"{acronym} {long_form}"


@lru_cache(maxsize=16)
def _pattern(acronyms: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(acronyms, key=len, reverse=True)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")


def _read(text: str, path: object) -> _AcronymFile:
    try:
        return _AcronymFile.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise InputError(path, f"is no YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(path, f"{where}: {first['msg']}" if where else first["msg"], _REMEDY) from error
