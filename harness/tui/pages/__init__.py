"""The pages of the main screen, one module per tab, with their style in pages.tcss."""

from textual.content import Content
from textual.widgets import Static

from harness.core.text import sanitize
from harness.tui.overview import Overview
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel, PanelGroup


class Page(PanelGroup):
    """A page: panels, the first of which has the table that the page is about."""

    @property
    def table(self) -> ListTable:
        """The first table."""
        return self.query(ListTable).first()

    def show(self, overview: Overview) -> None:
        """Show the state of the machine. A subclass overrides it."""

    def show_nothing(self, sentence: str) -> None:
        """Show why the table is empty and which key helps, in place of all panels; without a sentence, show them."""
        first, *further = self.query(Panel)
        first.show_empty(sentence)
        first.set_class(bool(sentence), "-nothing")
        first.query_one(".why-empty", Static).update(Content(sanitize(sentence)))
        for panel in further:
            self.set_absent(panel.id or "", is_absent=bool(sentence))

    def choose(self) -> None:
        """Say that the user chooses a row for something. A subclass overrides it."""

    def focus_main(self) -> None:
        """Focus the table."""
        self.screen.set_focus(self.table)
