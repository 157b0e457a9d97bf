"""Lay a table out for the width there is.

What fits is a table. Where only sentences are too long, they are wrapped in it. Else as many columns as fit
stand beside each other, and the others below each row, by name.
"""

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
# A column of sentences, and the width down to which it may be wrapped.
_SENTENCE, _NARROWEST = 30, 24

Row = Sequence[Text]


def show(console: Console, columns: Sequence[str], rows: Sequence[Row], *, whole: Collection[str]) -> None:
    """Print rows of cells under their columns; no cell of a column in `whole` is ever broken in two."""
    widths = [
        max(cell_len(name), *(_width(row[place]) for row in rows)) for place, name in enumerate(columns)
    ]
    least = [
        min(width, _NARROWEST) if width > _SENTENCE and name not in whole else width
        for name, width in zip(columns, widths, strict=True)
    ]
    if _total(least) <= console.width:
        console.print(_table(columns, rows, [low < width for low, width in zip(least, widths, strict=True)]))
        return
    # what has no cell at all takes no room, a cell of several lines no line of its row
    kept = [0, *(place for place in range(1, len(columns)) if any(row[place].plain for row in rows))]
    fitting = [place for place in kept if not any("\n" in row[place].plain for row in rows)]
    beside = _beside(widths, fitting, console.width)
    for line in _lines(console.width, columns, rows, beside=beside, widths=widths, whole=whole):
        console.print(line, soft_wrap=True)


def _width(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _table(columns: Sequence[str], rows: Sequence[Row], wraps: Sequence[bool]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, wrap in zip(columns, wraps, strict=True):
        table.add_column(name, overflow="fold", no_wrap=not wrap)
    for row in rows:
        table.add_row(*row)
    return table


def _beside(widths: Sequence[int], places: Sequence[int], room: int) -> list[int]:
    """Return which of these columns fit beside the first of all, in their order."""
    taken = [0]
    for place in places:
        if place and _total([widths[one] for one in (*taken, place)]) <= room:
            taken.append(place)
    return taken


def _lines(
    room: int,
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    beside: Sequence[int],
    widths: Sequence[int],
    whole: Collection[str],
) -> Iterator[Text]:
    """Yield the header, and of each row its line and what is below it."""
    yield _line([Text(columns[place], style="bold") for place in beside], [widths[one] for one in beside])
    for row in rows:
        yield _line([row[place] for place in beside], [widths[one] for one in beside])
        below = [
            (Text.assemble((f"{name} ", "dim"), row[place]), name in whole)
            for place, name in enumerate(columns)
            if place not in beside and row[place].plain
        ]
        yield from _flowing(room, below)


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for cell, width in zip(cells, widths, strict=True):
        line.append_text(cell)
        line.append(" " * (width - cell_len(cell.plain) + _GAP))
    line.rstrip()
    return line


def _flowing(room: int, parts: Sequence[tuple[Text, bool]]) -> Iterator[Text]:
    """Yield lines of named cells; one that needs more than a line begins one, and goes on indented."""
    margin, measuring = Text(" " * _GAP), Console(width=room)
    line = margin.copy()
    for part, unbroken in parts:
        if line.cell_len > _GAP and line.cell_len + _GAP + part.cell_len > room:
            yield line
            line = margin.copy()
        if line.cell_len > _GAP:
            line.append(" " * _GAP)
        if unbroken or (line.cell_len + part.cell_len <= room and "\n" not in part.plain):
            line.append_text(part)
            continue
        *full, line = (margin + piece for piece in part.wrap(measuring, room - line.cell_len))
        yield from full
    if line.cell_len > _GAP:
        yield line
