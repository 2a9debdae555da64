"""Drawings in SVG: a heat map of latencies over time, and flows of messages as ribbons between boxes."""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from .markup import count, cut, duration, visible

Values = dict[str, Any]
COLUMNS = 80  # of the heat map at most
HEATS = 8  # shades
CELL_W, CELL_H, LEFT, BOTTOM = 10, 18, 110, 24
BOXES = 12  # in one column of a flow; the others are drawn as one
WIDTH, BOX_W, GAP, HEIGHT, TOP = 1200, 12, 8, 300, 34
LABEL = 32  # characters of a name


def heat_map(timeline: Values) -> str:
    """Return the acknowledged messages by time and latency."""
    latency, step_s = timeline["ack_latency"], timeline["step_s"]
    merged = -(-timeline["steps"] // COLUMNS)
    rows = [[sum(row[at : at + merged]) for at in range(0, len(row), merged)] for row in latency["messages"]]
    most, start = max(map(max, rows)), datetime.fromisoformat(timeline["start"])
    bounds = [duration(limit / 1e6) for limit in latency["from_us"]]
    width, height = LEFT + len(rows[0]) * CELL_W, len(rows) * CELL_H
    parts = []
    for place, row in enumerate(rows):
        top = height - (place + 1) * CELL_H
        parts.append(f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end">from {bounds[place]}</text>')
        for column, messages in enumerate(row):
            if messages:
                at = start + timedelta(seconds=column * merged * step_s)
                heat = 1 + math.floor((HEATS - 1) * math.log(messages) / math.log(most)) if most > 1 else HEATS
                parts.append(
                    f'<rect class="h{heat}" x="{LEFT + column * CELL_W}" y="{top}" width="{CELL_W}" height="{CELL_H}">'
                    f"<title>{at:%H:%M:%S}: {count(messages, 'message')} from {bounds[place]}</title></rect>"
                )
    form = "%H:%M:%S" if step_s * timeline["steps"] < 86_400 else "%d %b %H:%M"
    for share in (0, 0.25, 0.5, 0.75):
        column = round(len(rows[0]) * share)
        at = start + timedelta(seconds=column * merged * step_s)
        if column < len(rows[0]) and (share == 0 or len(rows[0]) >= 40):
            parts.append(f'<text x="{LEFT + column * CELL_W}" y="{height + 16}">{at.strftime(form)}</text>')
    label = "Acknowledged messages by latency and time"
    return svg(width, height + BOTTOM, label, parts, least_width=min(width, 720))


def svg(width: float, height: float, label: str, parts: Iterable[str], least_width: float) -> str:
    content = "\n".join(parts)
    size = "wide" if least_width > 400 else "narrow"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><svg class="{size}" role="img" '
        f'aria-label="{label}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">'
        f"{content}</svg></div>"
    )


class Edge(NamedTuple):
    """Messages from one box to another; a box is its column and its name."""

    source: tuple[int, str]
    target: tuple[int, str]
    messages: int


class Box:
    """A box of a flow. `top` is in pixels; `drawn_in` and `drawn_out` are the heights of its ribbons so far."""

    def __init__(self) -> None:
        self.entered = self.left = 0
        self.place: float = 0  # in its column
        self.top = self.height = self.drawn_in = self.drawn_out = 0.0

    @property
    def messages(self) -> int:
        return max(self.entered, self.left)


def flow(edges: Sequence[Edge], titles: Sequence[str], full_height: float = HEIGHT) -> str:
    """Return a picture of edges between columns with these titles; ribbons are as thick as their messages.

    `full_height` is that of all messages of the fullest column, in pixels.
    """
    edges = folded(edges)
    boxes: dict[tuple[int, str], Box] = defaultdict(Box)
    for edge in edges:
        boxes[edge.source].left += edge.messages
        boxes[edge.target].entered += edge.messages
    columns = [ordered(column, edges, boxes) for column in range(len(titles))]
    most = max(sum(boxes[key].messages for key in column) for column in columns) or 1
    scale, bottom = full_height / most, 0.0
    for keys in columns:
        top = float(TOP)
        for key in keys:
            boxes[key].top, boxes[key].height = top, max(1.0, boxes[key].messages * scale)
            top += max(boxes[key].height, 14.0) + GAP
        bottom = max(bottom, top)
    distance = (WIDTH - BOX_W) / max(1, len(titles) - 1)
    parts = [
        f'<text class="title" x="{column * distance + (BOX_W if column else 0):g}" y="16" '
        f'text-anchor="{"end" if column else "start"}">{html.escape(title)}</text>'
        for column, title in enumerate(titles)
    ]
    for edge in sorted(edges, key=lambda each: (boxes[each.source].top, boxes[each.target].top)):
        parts.append(ribbon(edge, boxes[edge.source], boxes[edge.target], scale, distance))
    for (column, box_name), box in boxes.items():
        parts.append(drawn(column, box_name, box, distance, last=column == len(titles) - 1))
    return svg(WIDTH, bottom, "Flow of messages: " + " to ".join(titles), parts, WIDTH)


def ordered(column: int, edges: Sequence[Edge], boxes: dict[tuple[int, str], Box]) -> list[tuple[int, str]]:
    """Return the boxes of a column: by messages in the first one, later by the place of their sources."""
    keys = sorted((key for key in boxes if key[0] == column), key=lambda key: (-boxes[key].messages, key[1]))
    if column == 0:
        for place, key in enumerate(keys):
            boxes[key].place = place
        return keys
    for key in keys:
        into = [(boxes[edge.source].place, edge.messages) for edge in edges if edge.target == key]
        weight = sum(messages for _, messages in into)
        boxes[key].place = sum(place * messages for place, messages in into) / weight if weight else len(boxes)
    keys.sort(key=lambda key: boxes[key].place)
    for place, key in enumerate(keys):
        boxes[key].place = place
    return keys


def folded(edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges with all but the first BOXES boxes of each column as one box."""
    sizes: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for edge in edges:
        for column, box_name in (edge.source, edge.target):
            sizes[column][box_name] += edge.messages
    others = {}
    for column, names in sizes.items():
        order = sorted(names, key=lambda each: (-names[each], each))
        rest = order[BOXES:] if len(order) > BOXES + 1 else []
        others.update({(column, each): (column, f"{len(rest):,} others") for each in rest})
    sums: dict[tuple[tuple[int, str], tuple[int, str]], int] = defaultdict(int)
    for edge in edges:
        sums[others.get(edge.source, edge.source), others.get(edge.target, edge.target)] += edge.messages
    return [Edge(source, target, messages) for (source, target), messages in sums.items() if messages > 0]


def ribbon(edge: Edge, source: Box, target: Box, scale: float, distance: float) -> str:
    thick = max(0.5, edge.messages * scale)
    left, right = edge.source[0] * distance + BOX_W, edge.target[0] * distance
    middle = (left + right) / 2
    y, z = source.top + source.drawn_out, target.top + target.drawn_in
    source.drawn_out += thick
    target.drawn_in += thick
    about = f"{visible(edge.source[1])} → {visible(edge.target[1])}: {count(edge.messages, 'message')}"
    return (
        f'<path class="s{edge.source[0] * 2}" d="M{left:.1f},{y:.1f}C{middle:.1f},{y:.1f} {middle:.1f},{z:.1f} '
        f"{right:.1f},{z:.1f}v{thick:.1f}C{middle:.1f},{z + thick:.1f} {middle:.1f},{y + thick:.1f} "
        f'{left:.1f},{y + thick:.1f}z"><title>{html.escape(about)}</title></path>'
    )


def drawn(column: int, box_name: str, box: Box, distance: float, last: bool) -> str:
    """Return a box with its name and number of messages."""
    x = column * distance
    at, anchor = (x - 5, "end") if last else (x + BOX_W + 5, "start")
    about = f"{visible(box_name)}: {count(box.entered, 'message')} in, {box.left:,} out"
    return (
        f'<g><title>{html.escape(about)}</title><rect x="{x:.1f}" y="{box.top:.1f}" width="{BOX_W}" '
        f'height="{box.height:.1f}"/><text x="{at:.1f}" y="{box.top + max(box.height / 2, 5) + 4:.1f}" '
        f'text-anchor="{anchor}">{html.escape(cut(box_name, LABEL))} {box.messages:,}</text></g>'
    )
