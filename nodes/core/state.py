"""The part of the state that every graph has; each system adds its own keys."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from nodes.core.records import Decision


class CaseInput(TypedDict):
    """Input of a graph."""

    case_id: str
    """Id of a case in the context."""


class CaseState(TypedDict, total=False):
    """A key is there once its node has run."""

    case_id: str
    decisions: Annotated[list[Decision], operator.add]
