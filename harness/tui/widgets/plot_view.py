"""The plot of every screen, drawn again only if it or the size changes."""

from collections.abc import Iterator, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

from harness.tui.braille import Cell
from harness.tui.plot import DIM, Plot, curve_colour, draw_plot


class PlotView(Widget, can_focus=True):
    """Draws a Plot, again only if it or the size changes."""

    DEFAULT_CSS = "PlotView { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._plot: Plot | None = None
        self._strips: list[Strip] = []
        self._drawn: tuple[object, ...] = ()
        self._empty_text = ""

    def show(self, plot: Plot) -> None:
        """Draw `plot`."""
        if self._plot is None or plot.key != self._plot.key:
            self._plot = plot
            self.refresh()

    def show_text(self, text: str) -> None:
        """Show `text` in place of a plot."""
        self._plot, self._empty_text = None, text
        self.refresh()

    def notify_style_update(self) -> None:
        """Draw again with the colours of the new theme."""
        super().notify_style_update()
        self._drawn = ()

    def render_line(self, y: int) -> Strip:
        """Return the line at `y`."""
        key = (None if self._plot is None else id(self._plot), self.size, self._empty_text)
        if key != self._drawn:
            self._drawn, self._strips = key, self._draw()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.rich_style)

    def _draw(self) -> list[Strip]:
        width, height = self.size
        if self._plot is None:
            text = self._empty_text.center(width)[:width]
            lines = [""] * (height // 2) + [text]
            return [Strip([Segment(line.ljust(width), self.rich_style)]) for line in lines]
        if width < 12 or height < 3:
            return []
        styles = _Styles(self.rich_style, self.background_colors[1], is_dark=self.app.current_theme.dark)
        return [Strip(list(styles.segments(cells))) for cells in draw_plot(self._plot, width, height)]


class _Styles:
    """The Rich styles of cells, on a background."""

    def __init__(self, base: Style, background: Color, *, is_dark: bool) -> None:
        self._base, self._background, self._is_dark = base, background, is_dark
        self._known: dict[tuple[int, int], Style] = {}

    def segments(self, cells: Sequence[Cell]) -> Iterator[Segment]:
        """Yield the cells as runs of equal style."""
        run, style = "", self._base
        for cell in cells:
            wanted = self._style(cell.curve, cell.band)
            if wanted is not style:
                if run:
                    yield Segment(run, style)
                run, style = "", wanted
            run += cell.character
        if run:
            yield Segment(run, style)

    def _style(self, curve: int, band: int) -> Style:
        key = curve, band
        if key not in self._known:
            style = self._base
            if curve >= 0:
                style += Style(color=self._colour(curve).rich_color)
            if band >= 0:
                style += Style(bgcolor=self._background.blend(self._colour(band), 0.25).rich_color)
            self._known[key] = style
        return self._known[key]

    def _colour(self, number: int) -> Color:
        if number == DIM:
            return self._background.get_contrast_text().blend(self._background, 0.45)
        return Color.parse(curve_colour(number, is_dark=self._is_dark))
