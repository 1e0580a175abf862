"""Faults of input files, in one line."""

from __future__ import annotations

from storage.url_names import with_urls


class InputError(Exception):
    """An input that cannot be used: names the file, the place, the fault and the remedy."""

    def __init__(self, path: object, fault: str, remedy: str = "") -> None:
        self.path = with_urls(str(path))
        self.fault = with_urls(fault)
        self.remedy = with_urls(remedy)
        super().__init__(": ".join([self.path, self.fault]) + (f". {self.remedy}" if remedy else ""))
