"""The types inside a line of `cases.jsonl`: those of every system, and those of a system's own results."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as is_typed_dict

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from graph.system import UnknownSystem, find_system

_SCALARS: dict[Any, CoreSchema] = {
    str: core_schema.str_schema(strict=True),
    int: core_schema.int_schema(strict=True),
    float: core_schema.float_schema(strict=True),
    bool: core_schema.bool_schema(strict=True),
    type(None): core_schema.none_schema(),
}
_COUNT = core_schema.int_schema(strict=True)


def _record(**fields: CoreSchema) -> CoreSchema:
    """An object that has all of these, and may have others."""
    return core_schema.typed_dict_schema(
        {name: core_schema.typed_dict_field(schema) for name, schema in fields.items()},
        extra_behavior="ignore",
    )


_EVERY_SYSTEM = {
    "case_id": _SCALARS[str],
    "status": _SCALARS[str],
    "error": core_schema.nullable_schema(_record(**{"class": _SCALARS[str], "message": _SCALARS[str]})),
    "labels": core_schema.dict_schema(_SCALARS[str], _SCALARS[str]),
    "flags": core_schema.list_schema(_SCALARS[str], strict=True),
    "usage": _record(calls=_COUNT, input_tokens=_COUNT, output_tokens=_COUNT),
}


def misfit(line: Mapping[str, Any], system: str) -> str | None:
    """The first field of another type than is written, in words; None if all fit.

    Results of a system that is not here are taken as they are.
    """
    try:
        _validator(system).validate_python(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return None


@cache
def _validator(system: str) -> SchemaValidator:
    # The first version wrote fewer fields.
    fields = {
        name: core_schema.typed_dict_field(schema, required=False) for name, schema in _EVERY_SYSTEM.items()
    }
    try:
        found = find_system(system)
    except UnknownSystem:
        results: dict[str, Any] = {}
    else:
        declared = get_type_hints(found.state)
        results = {name: declared[name] for name in found.results if name in declared}
    for name, annotation in results.items():
        # A case may end before its node, and a purge takes the value.
        schema = core_schema.nullable_schema(_schema(annotation))
        fields[name] = core_schema.typed_dict_field(schema, required=False)
    return SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="ignore"))


def _schema(annotation: Any) -> CoreSchema:
    """Schema of a type in JSON. The values of a `Literal`, and keys of other versions, are free."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin in (Union, types.UnionType):
        return core_schema.union_schema([_schema(one) for one in arguments])
    if origin is Literal:
        return core_schema.union_schema([_SCALARS[kind] for kind in dict.fromkeys(map(type, arguments))])
    if is_typed_dict(annotation):
        return core_schema.typed_dict_schema(
            {
                name: core_schema.typed_dict_field(_schema(one), required=False)
                for name, one in get_type_hints(annotation).items()
            },
            extra_behavior="ignore",
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return core_schema.dict_schema(_SCALARS[str], _schema(arguments[1]))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        item = None if origin is tuple else _schema(arguments[0])
        return core_schema.list_schema(item, strict=True)
    return core_schema.any_schema()
