"""`evigraph graph`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def graph(
    system: Annotated[
        str, typer.Argument(help="Which graph: tamu or weak_labels.", metavar="SYSTEM", show_default=False)
    ],
) -> None:
    """Print a system's graph as Mermaid text, with every route.

    Example: evigraph graph tamu > tamu.mmd
    """
    from graph.draw import draw_mermaid
    from graph.systems import build_system

    sys.stdout.write(draw_mermaid(build_system(system)))
