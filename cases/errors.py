"""What is wrong with an input file, in one line."""

from __future__ import annotations


class InputError(Exception):
    """An input that cannot be used: names the file, the place, the fault and the remedy."""

    def __init__(self, path: object, fault: str, remedy: str = "") -> None:
        """Keep the parts for programs and join them into one line for people."""
        self.path = str(path)
        self.fault = fault
        self.remedy = remedy
        super().__init__(": ".join([self.path, fault]) + (f". {remedy}" if remedy else ""))
