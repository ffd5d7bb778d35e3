"""A picture of the placement: every node of the fleet as a cell in its rack, and the gang's racks with their ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from operators.plan.answer import Answer
from operators.plan.racks import Cell, Rack, Row, rows_of
from operators.plan.report import headline, span
from operators.plan.svg import SANS, Canvas, fit, wrap

WIDTH = 1240
MARGIN = 24
INK, QUIET, EDGE, PANEL = "#1f2933", "#5f6b7a", "#c4ccd6", "#f5f7f9"
FREE, BUSY, GANG, CLOSED = "#bfe3c6", "#aab2bd", "#1d4ed8", "#b42318"
_SIZES = ((160, 22), (700, 16), (1600, 11), (6000, 8))
"""Up to so many nodes, cells of so many pixels; 5 beyond."""
_CARDS, _LINES = 4, 32
"""Cards of racks side by side, and the most nodes on one."""
_MOST_CARDS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How cells are laid out in a rack: all racks alike, as large as the largest."""

    cell: int
    gap: int
    columns: int
    lines: int

    @property
    def width(self) -> int:
        """Pixels of a rack's box."""
        return self.columns * (self.cell + self.gap) - self.gap + 12

    @property
    def height(self) -> int:
        """Pixels of a rack's box with its label."""
        return self.lines * (self.cell + self.gap) - self.gap + 26


def draw(answer: Answer) -> str:
    """Return the picture as an SVG document."""
    canvas, rows = Canvas(), rows_of(answer)
    y = _head(canvas, answer)
    y = _legend(canvas, answer, rows, y)
    grid = _grid([rack for row in rows for rack in row.racks])
    for row in rows:
        y = _row(canvas, answer, row, grid, y)
    if answer.placed:
        y = _cards(canvas, answer, rows, y)
    return canvas.document(WIDTH, y + MARGIN - 12, headline(answer))


def _head(canvas: Canvas, answer: Answer) -> float:
    y = MARGIN + 18.0
    for line in wrap(headline(answer), WIDTH - 2 * MARGIN, 19):
        canvas.text(MARGIN, y, line, size=19, fill=INK, font=SANS, bold=True)
        y += 26
    below = [answer.message] if answer.message and answer.message not in headline(answer) else []
    below += [answer.quality.describe()] if answer.quality else []
    for text in below:
        for line in wrap(text, WIDTH - 2 * MARGIN, 13):
            canvas.text(MARGIN, y, line, size=13, fill=QUIET, font=SANS)
            y += 19
    return y + 4


def _legend(canvas: Canvas, answer: Answer, rows: Sequence[Row], y: float) -> float:
    cells = [cell for row in rows for rack in row.racks for cell in rack.cells]
    closed = sum(1 for cell in cells if cell.closed)
    gang = sum(1 for cell in cells if cell.taken)
    free = sum(1 for cell in cells if not cell.closed and not cell.busy and not cell.taken)
    shared = sum(1 for cell in cells if not cell.closed and not cell.taken and cell.busy and cell.free)
    busy = len(cells) - closed - gang - free - shared
    items = [
        ("this gang", gang, Cell(name="", busy=0, taken=1, free=0)),
        ("free", free, Cell(name="", busy=0, taken=0, free=1)),
        ("partly in use", shared, Cell(name="", busy=1, taken=0, free=1)),
        ("in use", busy, Cell(name="", busy=1, taken=0, free=0)),
        ("out of service", closed, Cell(name="", busy=0, taken=0, free=0, closed="drained")),
    ]
    x = float(MARGIN)
    for name, count, cell in items[0 if answer.placed else 1 :]:
        _cell(canvas, cell, x, y, 14)
        label = f"{name} ({count})"
        canvas.text(x + 20, y + 11.5, label, size=12, fill=INK, font=SANS)
        x += 20 + len(label) * 7.9 + 22
    if answer.domain and not answer.placed:
        canvas.rect(x + 1, y + 1, 12, 12, "#ffffff", stroke=CLOSED, line=2, r=2)
        canvas.text(x + 20, y + 11.5, "comes nearest", size=12, fill=INK, font=SANS)
    canvas.text(WIDTH - MARGIN, y + 11.5, f"{len(cells)} nodes", size=12, fill=QUIET, font=SANS, anchor="end")
    return y + 30


def _grid(racks: Sequence[Rack]) -> Grid:
    nodes, most = sum(len(rack.cells) for rack in racks), max((len(rack.cells) for rack in racks), default=1)
    cell = next((size for limit, size in _SIZES if nodes <= limit), 5)
    gap = 2 if cell > 8 else 1
    widest = (WIDTH - 2 * MARGIN - 32) // (cell + gap)
    columns = min(widest, max(ceil(sqrt(1.8 * most)), ceil(48 / (cell + gap))))
    return Grid(cell=cell, gap=gap, columns=columns, lines=ceil(most / columns))


def _row(canvas: Canvas, answer: Answer, row: Row, grid: Grid, y: float) -> float:
    top, inner = (26 if row.label else 10), WIDTH - 2 * MARGIN - 20
    across = max(1, (inner + 8) // (grid.width + 8))
    lines = ceil(len(row.racks) / across)
    height = top + lines * (grid.height + 8) + 2
    near = _is_nearest(answer, row.path)
    canvas.rect(
        MARGIN, y, WIDTH - 2 * MARGIN, height, PANEL, stroke=CLOSED if near else EDGE, line=2 if near else 1, r=6
    )
    if row.label:
        label = fit(row.label, inner, 12, SANS)
        canvas.text(MARGIN + 10, y + 17, label, size=12, fill=INK, font=SANS, bold=True)
    for number, rack in enumerate(row.racks):
        x = MARGIN + 10 + number % across * (grid.width + 8)
        _rack(canvas, answer, rack, grid, x, y + top + number // across * (grid.height + 8))
    return y + height + 8


def _rack(canvas: Canvas, answer: Answer, rack: Rack, grid: Grid, x: float, y: float) -> None:
    near = _is_nearest(answer, rack.path)
    used = any(cell.taken for cell in rack.cells)
    stroke = CLOSED if near else GANG if used else EDGE
    canvas.rect(x, y, grid.width, grid.height, "#ffffff", stroke=stroke, line=2 if near or used else 1, r=3)
    size = 10 if grid.cell > 8 else 9
    label = fit(rack.label, grid.width - 10, size)
    canvas.text(x + 6, y + 13, label, size=size, fill=GANG if used else QUIET, bold=used)
    pitch = grid.cell + grid.gap
    for number, cell in enumerate(rack.cells):
        ranks = f", ranks {span(cell.ranks)}" if cell.ranks else ""
        canvas.begin(f"{cell.name}: {cell.state}{ranks}")
        _cell(canvas, cell, x + 6 + number % grid.columns * pitch, y + 20 + number // grid.columns * pitch, grid.cell)
        canvas.end()


def _is_nearest(answer: Answer, path: str) -> bool:
    return bool(path) and path == answer.domain and answer.placed is None


def _cell(canvas: Canvas, cell: Cell, x: float, y: float, size: float) -> None:
    """Draw a node as a vessel: others' devices at the bottom, then the gang's, the rest free."""
    if cell.closed:
        canvas.rect(x + 0.5, y + 0.5, size - 1, size - 1, "#ffffff", stroke=CLOSED)
        canvas.cross(x + 1, y + 1, size - 2, CLOSED)
        return
    whole = max(1, cell.busy + cell.taken + cell.free)
    below = round(size * cell.busy / whole, 1)
    own = round(size * cell.taken / whole, 1)
    if size - below - own > 0:
        canvas.rect(x, y, size, size, FREE)
    if own:
        canvas.rect(x, y + size - below - own, size, own, GANG)
    if below:
        canvas.rect(x, y + size - below, size, below, BUSY)
    label = str(cell.ranks[0]) if cell.ranks else ""
    letters = size * 0.46
    if label and size >= 16 and own >= letters and fit(label, size - 1, letters) == label:
        middle = y + size - below - own / 2 + letters * 0.36
        canvas.text(x + size / 2, middle, label, size=letters, fill="#ffffff", anchor="middle")


def _cards(canvas: Canvas, answer: Answer, rows: Sequence[Row], y: float) -> float:
    found = list(_gang_racks(rows))
    text = f"Ranks by {answer.levels[-1] if answer.levels else 'node'}"
    canvas.text(MARGIN, y + 22, text, size=14, fill=INK, font=SANS, bold=True)
    y += 34
    width = (WIDTH - 2 * MARGIN - (_CARDS - 1) * 12) / _CARDS
    shown = found[:_MOST_CARDS]
    for start in range(0, len(shown), _CARDS):
        heights = [
            _card(canvas, row, rack, cells, MARGIN + number * (width + 12), y, width)
            for number, (row, rack, cells) in enumerate(shown[start : start + _CARDS])
        ]
        y += max(heights) + 12
    if len(found) > len(shown):
        rest = sum(len(cells) for _, _, cells in found[_MOST_CARDS:])
        canvas.text(MARGIN, y + 8, f"and {rest} more nodes: see the table", size=12, fill=QUIET, font=SANS)
        y += 20
    return y


def _card(canvas: Canvas, row: Row, rack: Rack, cells: Sequence[Cell], x: float, y: float, width: float) -> float:
    height = 34 + len(cells) * 15
    canvas.rect(x, y, width, height, "#ffffff", stroke=GANG, r=4)
    count = f"{len(cells)} of {len(rack.cells)}"
    canvas.text(x + width - 10, y + 18, count, size=11, fill=QUIET, anchor="end")
    name = fit(f"{row.path}/{rack.label}" if row.path else rack.label, width - 32 - len(count) * 6.8, 11)
    canvas.text(x + 10, y + 18, name, size=11, fill=GANG, bold=True)
    widest = max(len(span(cell.ranks)) for cell in cells)
    end = x + 10 + widest * 6.8
    for number, cell in enumerate(cells):
        line = y + 37 + number * 15
        gpus = f"{cell.taken} GPU{'' if cell.taken == 1 else 's'}"
        room = x + width - 10 - len(gpus) * 6.8 - 10 - (end + 10)
        canvas.text(end, line, span(cell.ranks), size=11, fill=INK, anchor="end")
        # Of a long name the part before the domain tells more.
        name = cell.name if fit(cell.name, room, 11) == cell.name else cell.name.partition(".")[0]
        canvas.text(end + 10, line, fit(name, room, 11), size=11, fill=INK)
        canvas.text(x + width - 10, line, gpus, size=11, fill=QUIET, anchor="end")
    return height


def _gang_racks(rows: Sequence[Row]) -> Iterator[tuple[Row, Rack, list[Cell]]]:
    """Yield the racks that the gang is in by rank, those with many of its nodes in parts."""
    found = [
        (row, rack, sorted((cell for cell in rack.cells if cell.taken), key=lambda cell: cell.ranks[0]))
        for row in rows
        for rack in row.racks
        if any(cell.taken for cell in rack.cells)
    ]
    for row, rack, cells in sorted(found, key=lambda item: item[2][0].ranks[0]):
        for start in range(0, len(cells), _LINES):
            yield row, rack, cells[start : start + _LINES]
