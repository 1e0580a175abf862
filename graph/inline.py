"""Routers in the event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def inline(router: Callable[..., Any]) -> Callable[..., Any]:
    """A router as a coroutine function, for `add_conditional_edges`.

    LangGraph sends a plain function to a thread, which takes longer than any router, six times a case.
    """

    @wraps(router)
    async def route(*args: Any, **kwargs: Any) -> Any:
        return router(*args, **kwargs)

    return route
