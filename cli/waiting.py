"""Waiting for a server: a spinner on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.status import Status

from cli.terminal import messages, safe
from serving.vllm_server.server import REPORT_EVERY_S

_SPINNER_EVERY_S = 0.5


class Waiting:
    """Shows reports on standard error; a context manager."""

    def __init__(self) -> None:
        self._console = messages()
        self._status = Status("", console=self._console) if sys.stderr.isatty() else None
        self.every_s = _SPINNER_EVERY_S if self._status else REPORT_EVERY_S

    def report(self, text: str) -> None:
        """Show how the wait goes on; replaces the report before it on a terminal."""
        if self._status is None:
            self._console.print(safe(text), soft_wrap=True)
        else:
            shown = safe(text)
            shown.truncate(self._console.width - 4, overflow="ellipsis")
            self._status.update(shown)

    def __enter__(self) -> Waiting:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
