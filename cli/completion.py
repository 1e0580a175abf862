"""What a shell completes after Tab: runs, systems, recipes and models.

Tab has to be quick, so files are read here without the packages that own them: those take seconds to import.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

VARIABLE = "_EVIGRAPH_COMPLETE"
"""Set by a shell that asks."""
_ROOT, _DEPTH = Path("out"), 4
"""Where runs lie, and how far below."""


def run_names(incomplete: str) -> list[str]:
    """`last`, tags, names and paths of the runs below `out`, the newest first."""
    found: list[tuple[float, Path]] = []
    for folder, below, files in os.walk(_ROOT):
        path = Path(folder)
        if "run.json" in files:
            found.append(((path / "run.json").stat().st_mtime, path))
            below.clear()
        elif len(path.parts) > _DEPTH:
            below.clear()
    runs = [path for _, path in sorted(found, reverse=True)]
    names = [*(tag for run in runs for tag in _tags(run)), *(run.name for run in runs)]
    return [*dict.fromkeys([*(["last"] if runs else []), *names, *map(str, runs)])]


def _tags(run: Path) -> Iterator[str]:
    # A file that somebody broke is the matter of the command that reads it.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        yield from map(str, json.loads((run / "remarks.json").read_bytes()).get("tags", ()))


def recipe_names(incomplete: str) -> list[str]:
    """The packaged recipes."""
    files = resources.files("graph").joinpath("recipes").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def system_names(incomplete: str) -> list[str]:
    """The systems: recipes that a module of the graph is named after."""
    graph = resources.files("graph")
    return [name for name in recipe_names(incomplete) if graph.joinpath(f"{name}.py").is_file()]


def model_names(incomplete: str) -> list[str]:
    """Prefixes of model strings, and the models that run in this process; also after `ROLE=`."""
    from serving.protocol.model_name import ALIASES, BATCHED, PROVIDERS, ROLES
    from weights.registry import REGISTRY

    role, separator, _ = incomplete.partition("=")
    before = f"{role}=" if separator else ""
    strings = [
        *(f"embedded:{name}" for name in REGISTRY),
        *(f"{name}:" for name in (*PROVIDERS, *ALIASES)),
        BATCHED,
    ]
    return [*(before + one for one in strings), *([] if before else (f"{one}=" for one in ROLES))]


def complete(answer: Callable[[], None]) -> None:
    """Answer a shell. Bash cuts words at `:` and `=`, as in `embedded:qwen`; they are joined for `answer`.

    Args:
        answer: Prints the candidates, one a line, and ends the process.
    """
    if os.environ.get(VARIABLE) != "complete_bash":
        return answer()
    words, current = _joined(
        os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    )
    os.environ.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(current))
    before = re.sub(r"[^:=]*$", "", words[current]) if current < len(words) else ""
    printed, written = io.StringIO(), sys.stdout
    try:
        with contextlib.redirect_stdout(printed):
            answer()
    finally:
        lines = printed.getvalue().splitlines(keepends=True)
        written.writelines(filter(str.strip, (line.removeprefix(before) for line in lines)))


def _joined(words: list[str], current: int) -> tuple[list[str], int]:
    """Words as they were typed, and which of them is completed."""
    joined: list[str] = []
    place = len(words)
    for number, word in enumerate(words):
        cut = word in (":", "=") or (number > 0 and words[number - 1] in (":", "="))
        if cut and joined:
            joined[-1] += word
        else:
            joined.append(word)
        if number == current:
            place = len(joined) - 1
    return joined, min(place, len(joined))
