"""The main screen: a page for each of the six tabs."""

import pkgutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from harness.core.errors import HarnessError
from harness.core.settings import default_round
from harness.plugins.discovery import AttackFile
from harness.runs.folder import RunFolder
from harness.runs.planning import attack_again
from harness.tui.dialog_results import if_answered
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.pages.runs import RunsPage
from harness.tui.screens.opening import screen_for
from harness.tui.widgets.bars import TABS, KeyFooter, TopBar

if TYPE_CHECKING:
    from harness.tui.pages.attacks import AttacksPage


class MainScreen(Screen[None]):
    """The bar, the tabs, the page of the chosen tab, and the footer. Pages are made when they are first shown.

    Textual's TabbedContent takes a second line for its tabs and makes all pages at once.
    """

    CSS_PATH = ["main.tcss", "../pages/pages.tcss"]  # noqa: RUF012  as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.quit", "Quit", tooltip="Close the application; runs continue"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._tab = "Runs"
        self._pages: dict[str, Page] = {self._tab: RunsPage()}
        """The pages that were shown, by the name of their tab."""
        self._overview: Overview | None = None

    def compose(self) -> ComposeResult:
        yield TopBar(is_main=True)
        yield Container(self._page, id="pages")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(RunsPage).focus_main()

    def on_screen_resume(self) -> None:
        """Show what has changed while another screen was above this one."""
        self._show_page()

    def show(self, overview: Overview) -> None:
        """Show the state of the machine on the page that is visible."""
        self._overview = overview
        self._show_page()

    def _show_page(self) -> None:
        if self._overview is not None:
            self._page.show(self._overview)

    @property
    def _page(self) -> Page:
        return self._pages[self._tab]

    def is_at(self, name: str) -> bool:
        """Return True if the list of this page has the focus."""
        return name == self._tab and self.focused is not None and self.focused is self._page.table

    async def go_to_page(self, name: str) -> None:
        """Show the page of a tab."""
        # First, so that a new page gets its final size at once.
        for tab, page in self._pages.items():
            page.display = tab == name
        if name not in self._pages:
            self._pages[name] = pkgutil.resolve_name(f"harness.tui.pages.{TABS[name]}")()
            await self.query_one("#pages").mount(self._pages[name])
        self._tab = name
        self.query_one(TopBar).go_to(name)
        self._show_page()
        self._page.focus_main()

    async def show_attack(self, path: str) -> None:
        """Show the page of the attacks with the cursor on one."""
        await self.go_to_page("Attacks")
        self._page.table.move_to(path)

    # Runs.

    async def choose_attack(self) -> None:
        """Show the attacks, one of which the user chooses for a new run."""
        await self.go_to_page("Attacks")
        self._page.choose()

    def on_attacks_page_new_run(self, event: "AttacksPage.NewRun") -> None:
        folder = None if self._overview is None else self._overview.attacks_folder
        self._open_form(event.attack, folder, is_tuned=event.is_tuned)

    def _open_form(
        self, attack: AttackFile, folder: Path | None, *, like: RunFolder | None = None, is_tuned: bool = False
    ) -> None:
        from harness.tui.screens.new_run import NewRunScreen, NewTuningScreen

        choice = None if self._overview is None else self._overview.round_choice
        asks = NewTuningScreen if is_tuned else NewRunScreen
        screen = asks(attack, attacks_folder=folder, round_name=choice or default_round(), like=like)
        opens = self._show_tuning if is_tuned else self._show_started
        self.app.push_screen(screen, if_answered(partial(self.call_later, opens)))

    def compare(self, folder: RunFolder) -> None:
        """Compare a run with the best other one."""
        page = self.query_one(RunsPage)
        if self._overview is not None:
            page.show(self._overview)
        page.compare({folder.id})

    def duplicate(self, folder: RunFolder) -> None:
        """Open the form with the values of a run."""
        try:
            attack, attacks_folder, sentence = attack_again(folder, folder.attack_spec().request.attacks)
        except HarnessError as error:
            self.notify(str(error), severity="error")
            return
        if attack.error is not None:
            self.notify(f"{attack.path}: {attack.error}", severity="error")
            return
        if sentence:
            self.notify(sentence, severity="warning")
        self._open_form(attack, attacks_folder, like=folder)

    async def _show_tuning(self, id_: str) -> None:
        from harness.tui.pages.tuning import TuningPage

        await self.go_to_page("Tuning")
        self.query_one(TuningPage).select(id_)

    async def _show_started(self, id_: str) -> None:
        self.query_one(RunsPage).table.move_to(id_)
        # Behind the screen of the run is its list, with the keys that the messages name.
        await self.go_to_page("Runs")
        self.app.push_screen(screen_for(RunFolder.of(id_)))
