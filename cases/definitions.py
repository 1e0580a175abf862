"""Definitions are YAML files that a schema checks: recipes, experiments, flags of a server.

A kind of definition has a folder of packaged ones, which go by their names; a user's own go by their paths.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cases.texts import json_sha256
from storage import unique_yaml
from storage.url_names import with_urls

Schema = TypeVar("Schema", bound=BaseModel)

_MAX_BYTES = 1 << 20
"""Maximum size of a file.

Handwritten ones have a few thousand bytes, and YAML of 10 MB takes a minute to read.
"""


class Section(BaseModel):
    """A part of a definition or of a record: it refuses unknown fields and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Definition:
    """A file that was read and not yet checked against a schema.

    Attributes:
        origin: The name or path it was asked for by.
        folder: Its folder, for relative paths in it.
        text: All of it, comments included.
    """

    origin: str
    folder: Path
    text: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DefinitionKind:
    """One kind of definition.

    Attributes:
        name: Singular in messages, such as `training recipe`.
        plural: Plural in messages, such as `recipes`.
        packaged: Folder of those that come with the package.
        error: Raised with one line that names the file, the field and the nearest known name.
    """

    name: str
    plural: str
    packaged: Traversable
    error: type[Exception]

    def packaged_names(self) -> list[str]:
        """Names of those that come with the package."""
        entries = (entry.name for entry in self.packaged.iterdir())
        return sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml"))

    def read(self, name_or_path: str) -> Definition:
        """Read a packaged definition by its name, or a file of the user's.

        Raises:
            Exception: An `error`: it does not exist, or is not YAML mapping.
        """
        known = self.packaged_names()
        try:
            if name_or_path in known:
                folder = Path(str(self.packaged))
                text = self.packaged.joinpath(f"{name_or_path}.yaml").read_text("utf-8")
            else:
                folder = Path(name_or_path).parent
                text = _short_text(Path(name_or_path))
        except (OSError, ValueError) as error:
            near = difflib.get_close_matches(name_or_path, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"packaged {self.plural}: {', '.join(known)}"
            reason = getattr(error, "strerror", None) or str(error)
            raise self.fault(name_or_path, f"{reason}; {hint}") from None
        try:
            values = unique_yaml.loads(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            # A ValueError comes from a value that looks like a date but is not.
            raise self.fault(name_or_path, " ".join(str(error).split())) from None
        if not isinstance(values, dict):
            raise self.fault(name_or_path, "it must be a mapping of fields to values")
        return Definition(name_or_path, folder, text, values)

    def load(self, schema: type[Schema], name_or_path: str) -> Schema:
        """Read a definition and check it.

        Raises:
            Exception: An `error`: it cannot be read, or a field is unknown or wrong.
        """
        return self.check(schema, self.read(name_or_path).values, name_or_path)

    def check(self, schema: type[Schema], values: Mapping[str, Any], origin: str) -> Schema:
        """Check fields against a schema.

        Raises:
            Exception: An `error` that names the first wrong field, and for an unknown one the nearest known.
        """
        try:
            return schema.model_validate(values)
        except ValidationError as error:
            raise self.fault(origin, _first_fault(error, schema)) from None

    def override(self, definition: Schema, changes: Mapping[str, Any], origin: str) -> Schema:
        """A checked definition with some values replaced, checked again.

        Args:
            definition: Where all other values come from.
            changes: New values by dotted field, such as `model.encoder`.
            origin: Where the definition came from, for messages.

        Raises:
            Exception: An `error`: a new value is wrong, or contradicts another.
        """
        if not changes:
            return definition
        values = definition.model_dump(mode="json")
        # What chooses the kind of a section comes first, as it puts the section's other fields away.
        kinds = {field for field in changes if _chooses_kind(type(definition), field.split("."))}
        for field in sorted(changes, key=lambda field: field not in kinds):
            value = changes[field]
            *sections, name = field.split(".")
            place = values
            for section in sections:
                # A missing section is rejected with all other unknown fields.
                if place.get(section) is None:
                    place[section] = {}
                place = place[section]
                if not isinstance(place, dict):
                    fault = f"unknown field {field!r}: {section!r} is not a section"
                    raise self.fault(origin, fault)
            if field in kinds and place.get(name) != value:
                place.clear()
            place[name] = value
        return self.check(type(definition), values, origin)

    def fault(self, origin: str, message: str) -> Exception:
        """Error for a faulty definition."""
        return self.error(with_urls(f"{self.name} {origin}: {message}"))


def values_sha256(definition: BaseModel) -> str:
    """Digest of all values of a definition, including defaults; comments and order do not count."""
    return json_sha256(definition.model_dump(mode="json"))


def _short_text(path: Path) -> str:
    """The text of a file.

    Raises:
        ValueError: It is longer than any definition, or no text in UTF-8.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"is longer than {_MAX_BYTES >> 20} MB")
    return content.decode()


def _first_fault(error: ValidationError, schema: type[BaseModel]) -> str:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    field = ".".join(place)
    if first["type"] != "extra_forbidden":
        message = first["msg"].removeprefix("Value error, ")
        return f"{field}: {message}" if field else message
    known = _known_fields(schema, place[:-1])
    near = difflib.get_close_matches(place[-1], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"unknown field {field!r}; {hint}"


def _known_fields(schema: type[BaseModel], place: list[str]) -> list[str]:
    """Fields of a section; where it can be of several kinds, the path determines which."""
    parts = iter(place)
    for part in parts:
        if part not in schema.model_fields:
            # The key of a mapping, or the position in a list: its type was found one step before.
            continue
        sections = _sections(schema.model_fields[part].annotation)
        if len(sections) > 1:
            kind = next(parts, "")
            sections = [one for one in sections if _is_of_kind(one, kind)]
        (schema,) = sections
    return list(schema.model_fields)


def _is_of_kind(section: type[BaseModel], kind: str) -> bool:
    return any(
        typing.get_origin(field.annotation) is typing.Literal and kind in typing.get_args(field.annotation)
        for field in section.model_fields.values()
    )


def _chooses_kind(schema: type[BaseModel], place: list[str]) -> bool:
    """Whether a field determines the kind of its section, such as `rule` of a cut-off."""
    *holders, section, name = ["", *place]
    for part in holders[1:]:
        found = _sections(schema.model_fields[part].annotation) if part in schema.model_fields else []
        if len(found) != 1:
            return False
        schema = found[0]
    field = schema.model_fields.get(section)
    if field is None:
        return False
    return name in (field.discriminator, *_discriminators(field.annotation))


def _discriminators(annotation: object) -> list[object]:
    """Discriminators of a type's kinds, if they are in the type and not in its field."""
    found = [getattr(one, "discriminator", None) for one in getattr(annotation, "__metadata__", ())]
    return [*found, *(one for inner in typing.get_args(annotation) for one in _discriminators(inner))]


def _sections(annotation: object) -> list[type[BaseModel]]:
    """The schemas in a type: that itself, or those in an optional one, a mapping or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in typing.get_args(annotation) for section in _sections(inner)]
