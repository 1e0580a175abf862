"""The graph as boxes and lines, with the path of a case lit."""

from __future__ import annotations

from dataclasses import dataclass

from runs.manifest import GraphShape
from viewer.case_parts.graph_layout import NODE_WIDTH, Layout, Slot, lay_out
from viewer.case_parts.route import END, START, Route, Visit, drawable

_HEIGHT, _ROW, _MARGIN = 52.0, 80.0, 8.0
_LONGEST_NAME = 20
_BULGE = 30.0
_TERMINALS = {START: "start", END: "end"}


@dataclass(frozen=True, slots=True)
class Box:
    """A node, its name in one line or two; `visit` is None where the case did not come by."""

    name: list[str]
    terminal: bool
    x: float
    y: float
    width: float
    height: float
    visit: Visit | None
    lit: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """An edge: a path of SVG, made of numbers alone."""

    path: str
    lit: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """In pixels; edges that were taken come last, so that they lie above the others."""

    width: float
    height: float
    boxes: list[Box]
    curves: list[Curve]


def draw_graph(graph: GraphShape, route: Route) -> Drawing:
    """Draw a graph with the route of a case."""
    shape = drawable(graph)
    edges = [(edge.source, edge.target) for edge in shape.edges]
    inner = [name for name in shape.nodes if name not in _TERMINALS]
    # The start comes first and the end last, wherever the graph lists them.
    nodes = [name for name in (START, *inner, END) if name in shape.nodes]
    layout = lay_out(nodes, edges, route.edges)
    taken = set(route.edges)
    ends = {name for edge in taken for name in edge if name in _TERMINALS}
    boxes = [_box(name, layout, route.visits.get(name), name in ends) for name in nodes]
    curves = [Curve(_curve(edge, layout), edge in taken) for edge in sorted(edges, key=taken.__contains__)]
    return Drawing(
        round(layout.width + 2 * _MARGIN + _BULGE),
        round(len(layout.layers) * _ROW - (_ROW - _HEIGHT) + 2 * _MARGIN),
        boxes,
        curves,
    )


def _box(name: str, layout: Layout, visit: Visit | None, ends: bool) -> Box:
    terminal = name in _TERMINALS
    width, height = (64.0, 2 * _half(name)) if terminal else (NODE_WIDTH, _HEIGHT)
    x, y = _middle((name, layout.layer_of[name]), layout)
    return Box(
        in_lines(_TERMINALS.get(name, name)),
        terminal,
        round(x - width / 2, 1),
        round(y - height / 2, 1),
        width,
        height,
        visit,
        ends or visit is not None,
    )


def in_lines(name: str) -> list[str]:
    """A long name in two lines, parted at the underscore next to its middle."""
    parts = [place + 1 for place, character in enumerate(name) if character == "_"]
    if len(name) <= _LONGEST_NAME or not parts:
        return [name]
    place = min(parts, key=lambda place: abs(2 * place - len(name)))
    return [name[:place], name[place:]]


def _middle(slot: Slot, layout: Layout) -> tuple[float, float]:
    return layout.x[slot] + _MARGIN, slot[1] * _ROW + _HEIGHT / 2 + _MARGIN


def _half(name: str) -> float:
    return 12.0 if name in _TERMINALS else _HEIGHT / 2


def _curve(edge: tuple[str, str], layout: Layout) -> str:
    if edge not in layout.paths:
        return _curve_back(edge, layout)
    slots = layout.paths[edge]
    x, y = _middle(slots[0], layout)
    y += _half(edge[0])
    parts = [f"M{x:.1f} {y:.1f}"]
    for slot in slots[1:]:
        to_x, middle = _middle(slot, layout)
        # A lane is passed straight; bends lie between the layers.
        to_y = middle - (_half(slot[0]) if slot == slots[-1] else _HEIGHT / 2)
        bend = (y + to_y) / 2
        parts.append(f"C{x:.1f} {bend:.1f} {to_x:.1f} {bend:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
        if slot != slots[-1]:
            y = middle + _HEIGHT / 2
            parts.append(f"L{x:.1f} {y:.1f}")
    return "".join(parts)


def _curve_back(edge: tuple[str, str], layout: Layout) -> str:
    """From the right side of the lower node to that of the upper one."""
    (x, y), (to_x, to_y) = (_middle((name, layout.layer_of[name]), layout) for name in edge)
    x, to_x = x + NODE_WIDTH / 2, to_x + NODE_WIDTH / 2
    out = max(x, to_x) + _BULGE
    return f"M{x:.1f} {y:.1f}C{out:.1f} {y:.1f} {out:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
