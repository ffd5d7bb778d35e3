"""As much SVG as a picture of boxes and labels needs."""

from __future__ import annotations

from html import escape

SANS = "font-family='DejaVu Sans,Verdana,Arial,sans-serif'"
MONO = "font-family='DejaVu Sans Mono,Menlo,Consolas,monospace'"
_ADVANCE = {SANS: 0.66, MONO: 0.61}
"""Width of a character in font sizes: exact for the monospaced fonts, on the safe side for the others."""


class Canvas:
    """Elements in drawing order. Coordinates are pixels from the top left corner."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        stroke: str = "",
        line: float = 1,
        r: float = 0,
    ) -> None:
        """Draw a box; ``r`` rounds its corners."""
        edge = f" stroke='{stroke}' stroke-width='{line:g}'" if stroke else ""
        corner = f" rx='{r:g}'" if r else ""
        self._parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='{fill}'{edge}{corner}/>"
        )

    def cross(self, x: float, y: float, size: float, stroke: str) -> None:
        """Draw the diagonals of a square."""
        end_x, end_y = x + size, y + size
        self._parts.append(
            f"<path d='M{x:g} {y:g}L{end_x:g} {end_y:g}M{end_x:g} {y:g}L{x:g} {end_y:g}' stroke='{stroke}'/>"
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float,
        fill: str,
        font: str = MONO,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Write ``text`` with its base line at ``y``."""
        weight = " font-weight='bold'" if bold else ""
        place = "" if anchor == "start" else f" text-anchor='{anchor}'"
        self._parts.append(
            f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' fill='{fill}' {font}{weight}{place}>{_clean(text)}</text>"
        )

    def begin(self, title: str) -> None:
        """Begin a group that shows ``title`` under the pointer."""
        self._parts.append(f"<g><title>{_clean(title)}</title>")

    def end(self) -> None:
        """End the group."""
        self._parts.append("</g>")

    def document(self, width: float, height: float, title: str) -> str:
        """Return the file."""
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height:g}' "
            f"viewBox='0 0 {width:g} {height:g}'>"
            f"<title>{_clean(title)}</title><rect width='100%' height='100%' fill='#ffffff'/>"
        )
        return "\n".join([head, *self._parts, "</svg>\n"])


def fit(text: str, width: float, size: float, font: str = MONO) -> str:
    """Return ``text``, without its middle if it is wider than ``width`` pixels; the ends of names tell them apart."""
    most = int(width / (size * _ADVANCE[font]))
    if len(text) <= most:
        return text
    if most < 2:
        return ""
    tail = (most - 1) * 2 // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def wrap(text: str, width: float, size: float, font: str = SANS) -> list[str]:
    """Return ``text`` in lines of at most ``width`` pixels, broken at blanks."""
    most, lines = int(width / (size * _ADVANCE[font])), [""]
    for word in text.split():
        piece = fit(word, width, size, font)
        if lines[-1] and len(lines[-1]) + 1 + len(piece) > most:
            lines.append(piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}".strip()
    return lines


def _clean(text: str) -> str:
    """Escape ``text``; XML has no place for control characters, escaped or not."""
    return escape("".join(char if char.isprintable() else "?" for char in text))
