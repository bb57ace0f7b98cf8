"""The pages of the main screen, one module per tab, with their style in pages.tcss."""

from harness.tui.overview import Overview
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import PanelGroup


class Page(PanelGroup):
    """A page: panels, the first of which has the table that the page is about."""

    @property
    def table(self) -> ListTable:
        """The first table."""
        return self.query(ListTable).first()

    def show(self, overview: Overview) -> None:
        """Show the state of the machine. A subclass overrides it."""

    def choose(self) -> None:
        """Say that the user chooses a row for something. A subclass overrides it."""

    def focus_main(self) -> None:
        """Focus the table."""
        self.screen.set_focus(self.table)
