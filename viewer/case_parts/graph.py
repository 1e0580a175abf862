"""The graph as boxes and lines, with the path of a case highlighted.

Nodes are laid out in layers (Sugiyama, Tagawa and Toda 1981): cycles are opened, nodes go to the layer of
their longest path from the start, crossings are reduced by barycentres, and positions are evened out. Edges
that skip layers run through lanes, one for each target. The route of the case comes first in every choice, so
that it runs downwards and straight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runs.record.manifest import GraphShape
from viewer.case_parts.timeline import END, START, Route, Visit

Edge = tuple[str, str]
Slot = tuple[str, int]
"""A node, or a lane to it, in a layer."""
Neighbours = Mapping[Slot, Sequence[tuple[Slot, float]]]
"""Slots of the layers above and below that an edge leads to, each with its weight."""

NODE_WIDTH, LANE_WIDTH, GAP = 132.0, 6.0, 12.0
_HEIGHT, _ROW, _MARGIN = 52.0, 80.0, 8.0
_MAX_NAME = 20
_BULGE = 30.0
_TERMINALS = {START: "start", END: "end"}
_SWEEPS = 8
_ROUTE_WEIGHT = 8.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of all slots.

    Attributes:
        layers: Slots from left to right, from the top down.
        x: Middle of each slot, from 0 on.
        width: From the left edge to the right one.
        paths: The slots that each edge passes; edges that run upwards have none.
    """

    layers: list[list[Slot]]
    x: Mapping[Slot, float]
    width: float
    paths: Mapping[Edge, list[Slot]]
    layer_of: Mapping[str, int]


def lay_out(nodes: Sequence[str], edges: Sequence[Edge], route: Sequence[Edge]) -> Layout:
    """Lay out a graph whose nodes are in the order of their wiring.

    `route` has the edges that were taken, in order; they run downwards where possible.
    """
    kept = _without_cycles(nodes, edges, route)
    layer_of = _longest_paths(nodes, kept)
    paths = {edge: _path(edge, layer_of) for edge in edges if layer_of[edge[0]] < layer_of[edge[1]]}
    taken = set(route)
    links: dict[tuple[Slot, Slot], float] = {}
    for edge, path in paths.items():
        weight = _ROUTE_WEIGHT if edge in taken else 1.0
        for pair in pairwise(path):
            links[pair] = max(links.get(pair, 0.0), weight)
    layers: list[list[Slot]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    slots = [(name, layer_of[name]) for name in nodes]
    slots += [slot for path in paths.values() for slot in path]
    for slot in slots:
        if slot not in layers[slot[1]]:
            layers[slot[1]].append(slot)
    neighbours: dict[Slot, list[tuple[Slot, float]]] = {}
    for (upper, lower), weight in links.items():
        neighbours.setdefault(upper, []).append((lower, weight))
        neighbours.setdefault(lower, []).append((upper, weight))
    _reduce_crossings(layers, neighbours)
    x = _even_out(layers, neighbours, layer_of)
    return Layout(layers, x, _shifted_to_zero(x, layer_of), paths, layer_of)


def width_of(slot: Slot, layer_of: Mapping[str, int]) -> float:
    """Width of a node or a lane."""
    return NODE_WIDTH if layer_of[slot[0]] == slot[1] else LANE_WIDTH


def _without_cycles(nodes: Sequence[str], edges: Sequence[Edge], route: Sequence[Edge]) -> list[Edge]:
    """Edges that form no cycle: the route first, then those that follow the wiring."""
    place = {name: index for index, name in enumerate(nodes)}
    wired = sorted(edges, key=lambda edge: place[edge[0]] > place[edge[1]])
    known = set(edges)
    order = dict.fromkeys(edge for edge in [*route, *wired] if edge in known)
    following: dict[str, set[str]] = {}
    kept = []
    for source, target in order:
        if not _reaches(target, source, following):
            following.setdefault(source, set()).add(target)
            kept.append((source, target))
    return kept


def _reaches(source: str, target: str, following: Mapping[str, Iterable[str]]) -> bool:
    seen, open_ = {source}, [source]
    while open_:
        name = open_.pop()
        if name == target:
            return True
        fresh = [one for one in following.get(name, ()) if one not in seen]
        seen.update(fresh)
        open_ += fresh
    return False


def _longest_paths(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    layer = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for source, target in edges:
            layer[target] = max(layer[target], layer[source] + 1)
    return layer


def _path(edge: Edge, layer_of: Mapping[str, int]) -> list[Slot]:
    source, target = edge
    lane = [(target, layer) for layer in range(layer_of[source] + 1, layer_of[target] + 1)]
    return [(source, layer_of[source]), *lane]


def _mean(slot: Slot, places: Mapping[Slot, float], neighbours: Neighbours) -> float:
    near = neighbours.get(slot, [])
    weight = sum(share for _, share in near)
    return sum(places[one] * share for one, share in near) / weight if weight else places[slot]


def _reduce_crossings(layers: list[list[Slot]], neighbours: Neighbours) -> None:
    places = {slot: float(place) for layer in layers for place, slot in enumerate(layer)}
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            means = {slot: _mean(slot, places, neighbours) for slot in layer}
            layer.sort(key=means.__getitem__)
            # Between 0 and 1, so that long and short layers pull equally.
            places |= {slot: (place + 0.5) / len(layer) for place, slot in enumerate(layer)}


def _even_out(
    layers: Sequence[Sequence[Slot]],
    neighbours: Neighbours,
    layer_of: Mapping[str, int],
) -> dict[Slot, float]:
    x = {slot: 0.0 for layer in layers for slot in layer}
    for layer in layers:
        x |= _spread(layer, [0.0] * len(layer), [1.0] * len(layer), layer_of)
    for sweep in range(4 * _SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_mean(slot, x, neighbours) for slot in layer]
            weights = [sum((share for _, share in neighbours.get(slot, ())), 0.1) for slot in layer]
            x |= _spread(layer, wanted, weights, layer_of)
    return x


def _spread(
    layer: Sequence[Slot], wanted: Sequence[float], weights: Sequence[float], layer_of: Mapping[str, int]
) -> dict[Slot, float]:
    """As near to the wanted places as widths and order allow, by weighted least squares.

    With the room that each slot needs taken off, this is an isotonic regression: neighbours that would
    overlap are pooled at the mean of their places (Barlow et al. 1972).
    """
    room = [0.0]
    for one, other in pairwise(layer):
        room.append(room[-1] + (width_of(one, layer_of) + width_of(other, layer_of)) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []
    for place, weight in enumerate(weights):
        mean, count = wanted[place] - room[place], 1
        while pools and pools[-1][0] >= mean:
            before, heavy, many = pools.pop()
            mean = (before * heavy + mean * weight) / (heavy + weight)
            weight, count = weight + heavy, count + many
        pools.append((mean, weight, count))
    places = [mean for mean, _, count in pools for _ in range(count)]
    return {slot: place + taken for slot, place, taken in zip(layer, places, room, strict=True)}


def _shifted_to_zero(x: dict[Slot, float], layer_of: Mapping[str, int]) -> float:
    left = min((middle - width_of(slot, layer_of) / 2 for slot, middle in x.items()), default=0.0)
    for slot in x:
        x[slot] -= left
    return max((middle + width_of(slot, layer_of) / 2 for slot, middle in x.items()), default=0.0)


@dataclass(frozen=True, slots=True)
class Box:
    """A node, its name in one line or two; `visit` is None if the case did not pass it."""

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
    """An edge: an SVG path of numbers only."""

    path: str
    lit: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """In pixels; edges that were taken come last, so that they are drawn above the others."""

    width: float
    height: float
    boxes: list[Box]
    curves: list[Curve]


def draw_graph(graph: GraphShape, route: Route) -> Drawing:
    """Draw a graph with the route of a case highlighted."""
    edges = [(edge.source, edge.target) for edge in graph.edges]
    inner = [name for name in graph.nodes if name not in _TERMINALS]
    # The start comes first and the end last, wherever the graph lists them.
    nodes = [name for name in (START, *inner, END) if name in graph.nodes]
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
    """A long name in two lines, split at the underscore nearest to its middle."""
    parts = [place + 1 for place, character in enumerate(name) if character == "_"]
    if len(name) <= _MAX_NAME or not parts:
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
        # Lanes are straight; bends are between the layers.
        to_y = middle - (_half(slot[0]) if slot == slots[-1] else _HEIGHT / 2)
        bend = (y + to_y) / 2
        parts.append(f"C{x:.1f} {bend:.1f} {to_x:.1f} {bend:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
        if slot != slots[-1]:
            y = middle + _HEIGHT / 2
            parts.append(f"L{x:.1f} {y:.1f}")
    return "".join(parts)


def _curve_back(edge: tuple[str, str], layout: Layout) -> str:
    """Path from the right side of the lower node to the upper one's."""
    (x, y), (to_x, to_y) = (_middle((name, layout.layer_of[name]), layout) for name in edge)
    x, to_x = x + NODE_WIDTH / 2, to_x + NODE_WIDTH / 2
    out = max(x, to_x) + _BULGE
    return f"M{x:.1f} {y:.1f}C{out:.1f} {y:.1f} {out:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
