"""One Chromium and one real server for the tests of pages."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from viewer.blind_handlers import Blind
from viewer.library import Library
from viewer.listening import configured, link, listen
from viewer.server import application

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")


@contextmanager
def served(root: Path, blind: Blind | None = None) -> Iterator[str]:
    """The viewer over a folder; the link that opens it."""
    library, bound = Library([root]), listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    server = uvicorn.Server(configured(application(library, port, "the-key", blind=blind)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield link("127.0.0.1", port, "the-key")
    server.should_exit = True
    thread.join()
    bound.close()
    library.close()
