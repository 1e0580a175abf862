"""Input of a ranker made from a case: composed query, expanded acronyms."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from storage import unique_yaml
from storage.errors import InputError

Part = Literal["patient", "clinician"]
QueryMode = Literal["patient", "clinician", "both"]

BOTH = "Patient Narrative: {patient}\nClinician Question: {clinician}"
"""As in the released code; encoders get it without an instruction for queries."""


class Query(NamedTuple):
    """A query, and the parts of the case it consists of."""

    text: str
    parts: tuple[Part, ...]


def retrieval_query(
    mode: QueryMode, patient: str, clinician: str, prepare: Callable[[str], str] = str.strip
) -> Query:
    """Put a query together.

    Args:
        mode: Requested parts. Missing ones are left out; if none is left, the other part is used.
        patient: The message; may be blank.
        clinician: The question; may be blank.
        prepare: Preparation of each part.
    """
    texts: dict[Part, str] = {"patient": patient, "clinician": clinician}
    there = [part for part, text in texts.items() if text.strip()]
    wanted = [part for part in there if mode in (part, "both")] or there
    parts = tuple(wanted)
    if len(parts) == 2:
        return Query(BOTH.format(patient=prepare(patient), clinician=prepare(clinician)), parts)
    return Query(prepare(texts[parts[0]]) if parts else "", parts)


_PACKAGED = "acronyms.yaml"
_REMEDY = "Write `acronyms:` and below it lines such as `CHF: heart failure`, with quotes around NO and ON"

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _AcronymFile(BaseModel):
    """A table.

    Attributes:
        extends: `packaged` adds to the packaged table, whose entries of the same name are replaced; `none`
            drops it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    extends: Literal["packaged", "none"] = "packaged"
    acronyms: dict[Text, Text]


def load_acronyms(path: Path | None = None) -> Mapping[str, str]:
    """Long forms by acronym: the packaged table, or a YAML file that extends or replaces it.

    Raises:
        InputError: The file cannot be read, or is not a table.
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

    Only whole words with exactly these letters count, not parts of a word or of a hyphenated one. A long form
    that is already present is not repeated.
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
        return _AcronymFile.model_validate(unique_yaml.loads(text))
    except yaml.YAMLError as error:
        raise InputError(path, f"is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(path, f"{where}: {first['msg']}" if where else first["msg"], _REMEDY) from error


_ESCAPES = re.compile(r"\\[trn]")
_DROPPED = str.maketrans("", "", string.punctuation)


def clean_for_retrieval(text: str) -> str:
    """Lower case, ASCII, without punctuation, and with single spaces.

    Tabs and line ends that are spelled out, such as a backslash before a t, are dropped with the quotes.
    A text that would become empty, for example in another script, only loses superfluous spaces.
    """
    spaced = _collapsed(text)
    plain = _ESCAPES.sub("", spaced).encode("ascii", "ignore").decode()
    return _collapsed(plain.lower().translate(_DROPPED)) or spaced


def _collapsed(text: str) -> str:
    return " ".join(text.split())


Preparation = Callable[[str], str]


def preparation(*, clean: bool, acronyms: Mapping[str, str] | None) -> Preparation:
    """Spell acronyms out if there is a table of them, then clean if asked."""

    def prepare(text: str) -> str:
        spelled = text if acronyms is None else expand_acronyms(text, acronyms)
        return clean_for_retrieval(spelled) if clean else spelled.strip()

    return prepare
