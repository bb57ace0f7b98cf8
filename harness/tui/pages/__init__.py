"""The pages of the main screen, one module per tab, with their style in pages.tcss."""

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from harness.core.text import sanitize
from harness.tui.overview import Overview
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel, PanelGroup


class Page(PanelGroup):
    """A page: panels, the first of which has the table that the page is about, and its filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False, tooltip="Filter the list"),
        Binding("escape", "back_out", show=False),
    ]
    FILTER: ClassVar[str] = "words"
    """The placeholder of the filter."""

    def on_mount(self) -> None:
        field = Input(placeholder=self.FILTER, id="filter", compact=True)
        field.display = False
        self.query(Panel).first().mount(field, before=0)

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the filter only if there is something to filter."""
        return self.table.row_count > 0 if action == "filter" else super().check_action(action, parameters)

    def filter(self, query: str) -> None:
        """Show the rows that contain every word of `query`."""
        self.table.filter(query)

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        self.screen.set_focus(field)

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.filter(event.value)

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.focus_main()

    def action_back_out(self) -> None:
        """Remove the filter."""
        field = self.query_one("#filter", Input)
        if field.display:
            field.value, field.display = "", False
            self.focus_main()
