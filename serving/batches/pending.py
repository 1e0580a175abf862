"""Raised by calls whose reply will arrive in a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.errors import GraphBubbleUp


class CallPending(GraphBubbleUp):
    """The case cannot go on before a batch has ended: it ends here, and begins again over replayed calls.

    LangGraph lets it up like an interrupt: nodes of the same step are not cancelled, so they ask for what
    they need as well, and no handler of failures sees it.

    Attributes:
        trace: The node executions that the case had come to.
    """

    trace: Sequence[Mapping[str, Any]] = ()
