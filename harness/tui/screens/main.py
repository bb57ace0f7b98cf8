"""The main screen: a page for each of the six tabs."""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from harness.core.errors import HarnessError
from harness.core.paths import runs_home
from harness.core.settings import default_round
from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile
from harness.runs.folder import RunFolder
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.pages.runs import RunsPage
from harness.tui.run_list import HEADING
from harness.tui.widgets.bars import KeyFooter, TopBar
from harness.tui.widgets.run_actions import screen_for

if TYPE_CHECKING:
    from harness.tui.pages.attacks import AttacksPage

TABS = ("Runs", "Attacks", "Audits", "Tuning", "Leaderboard", "Data")


class MainScreen(Screen[None]):
    """The bar, the tabs, the page of the chosen tab, and the footer. Pages are made when they are first shown.

    Textual's TabbedContent takes a second line for its tabs and makes all pages at once.
    """

    DEFAULT_CSS = """
    MainScreen {
        #pages { height: 1fr; }
        #page-tabs { height: 1; padding: 0 1; link-style: none; link-color: $text-muted; text-wrap: nowrap; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"tab({number})", name, show=False, tooltip=f"Go to the page of {name.lower()}")
            for number, name in enumerate(TABS, 1)
        ),
        Binding("q", "app.quit", "Quit", show=False, tooltip="Close the application; runs continue"),
    ]

    def __init__(self, *, attacks_folder: Path | None) -> None:
        super().__init__()
        self._attacks_folder = attacks_folder
        self._tab = 1
        self._overview: Overview | None = None
        self._round: str | None = None
        self._round_choice: str | None = None

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Static("", id="page-tabs")
        with Container(id="pages"):
            yield RunsPage()
        yield KeyFooter()

    def on_mount(self) -> None:
        self._show_tabs()
        self.query_one(RunsPage).focus_main()

    def on_screen_resume(self) -> None:
        """Show what has changed while another screen was above this one."""
        if self._overview is not None:
            self._page.show(self._overview, round_name=self._round)

    def show(self, overview: Overview, *, round_name: str | None, round_choice: str | None) -> None:
        """Show the state of the machine on the page that is visible; `round_choice` is the round's name or file."""
        self._overview, self._round, self._round_choice = overview, round_name, round_choice
        self._page.show(overview, round_name=round_name)

    @property
    def _page(self) -> Page:
        return self.query_one(f"#{TABS[self._tab - 1].lower()}-page", Page)

    async def action_tab(self, number: int) -> None:
        """Show the page of a tab, counted from 1."""
        name = TABS[number - 1].lower()
        pages = self.query_one("#pages")
        # First, so that a new page gets its final size at once.
        for page in pages.children:
            page.display = page.id == f"{name}-page"
        if not pages.query(f"#{name}-page"):
            await pages.mount(self._new_page(number))
        self._tab = number
        self._show_tabs()
        if self._overview is not None:
            self._page.show(self._overview, round_name=self._round)
        self._page.focus_main()

    def _new_page(self, number: int) -> Widget:
        # Imported here to keep the first paint fast.
        from harness.tui.pages.attacks import AttacksPage
        from harness.tui.pages.audits import AuditsPage
        from harness.tui.pages.data import DataPage
        from harness.tui.pages.leaderboard import LeaderboardPage
        from harness.tui.pages.tuning import TuningPage

        if number == 2:
            return AttacksPage(attacks_folder=self._attacks_folder)
        return {3: AuditsPage, 4: TuningPage, 5: LeaderboardPage, 6: DataPage}[number]()

    def _show_tabs(self) -> None:
        parts = []
        for number, name in enumerate(TABS, 1):
            style = "bold reverse" if number == self._tab else ""
            label = Content.styled(f" {number} {name} ", style) if style else Content(f" {number} {name} ")
            parts.append(label.stylize(Style.from_meta({"@click": f"screen.tab({number})"})))
        self.query_one("#page-tabs", Static).update(Content(" ").join(parts))

    # Runs.

    @on(RunsPage.NewRunAsked)
    async def _choose_attack(self) -> None:
        await self.action_tab(2)
        self.notify("Choose an attack and press Enter.")

    def on_attacks_page_new_run(self, event: "AttacksPage.NewRun") -> None:
        self._open_form(event.attack)

    def _open_form(self, attack: AttackFile, *, like: RunFolder | None = None) -> None:
        from harness.tui.screens.new_run import NewRunScreen

        round_name = self._round_choice or default_round()
        screen = NewRunScreen(attack, attacks_folder=self._attacks_folder, round_name=round_name, like=like)
        self.app.push_screen(screen, self._open_run)

    def duplicate(self, folder: RunFolder) -> None:
        """Open the form with the values of a run."""
        try:
            name = folder.attack_spec().attack.name
        except HarnessError as error:
            self.notify(sanitize(str(error)), severity="error", markup=False)
            return
        attacks = () if self._overview is None else self._overview.attacks
        attack = next((attack for attack in attacks if attack.name == name and attack.error is None), None)
        if attack is None:
            self.notify(sanitize(f"The attack {name} is not there any more."), severity="error", markup=False)
        else:
            self._open_form(attack, like=folder)

    def _open_run(self, id_: str | None) -> None:
        if id_ is None:
            return
        self.query_one(RunsPage).select(id_)
        if id_.startswith(HEADING):
            self.run_worker(self.action_tab(1))
        else:
            self.app.push_screen(screen_for(RunFolder(runs_home() / id_)))
