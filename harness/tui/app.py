"""The application: its screens, the user's settings, the state of the machine, and the actions of every screen."""

import contextlib
import gc
import logging
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen

from harness.core.errors import HarnessError
from harness.core.rounds import built_in_rounds, load_round
from harness.core.settings import Settings, default_round, read_settings, setting_error
from harness.core.terminal import end_process, handled_end, has_lost_terminal
from harness.core.text import format_score, sanitize, shorten
from harness.core.version import __version__
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary
from harness.tui.dialog_results import if_answered
from harness.tui.log import open_log
from harness.tui.overrides import OrderedKeysApp
from harness.tui.overview import Overview, OverviewFeed
from harness.tui.saved_state import load_theme, recent_rounds, save_theme
from harness.tui.screens.main import MainScreen
from harness.tui.screens.opening import screen_for
from harness.tui.screens.run_actions import RunActions
from harness.tui.widgets.bars import TABS, TopBar, work_in_words

if TYPE_CHECKING:
    from harness.tui.screens.keys import KeyEntry

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
_NOTICE_SECONDS = 20.0
_SECONDS_TO_CLOSE = 5


def show(app: "HarnessApp") -> None:
    """Run `app` until the user closes it.

    An unexpected error is raised, and a signal ends the process, after the terminal has been restored.
    """
    with handled_end(app.close_by_signal):
        app.run()
    if app.end_signal is not None:
        end_process(app.end_signal)
    if app.crash is not None:
        raise app.crash
    if app.running_ids:
        print(f"Still at work: {shorten(', '.join(sorted(app.running_ids)))}. `harness` shows it again.")


def _round_name(choice: str | None) -> str | None:
    """Return the name of the round that was chosen by name or file; the choice itself if it cannot be read."""
    if choice is not None:
        with contextlib.suppress(HarnessError, OSError):
            return load_round(choice).name
    return choice


class HarnessApp(OrderedKeysApp):
    """The main screen, and above it the screens that were opened."""

    TITLE = "harness"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    VerticalScroll, ScrollableContainer, OptionList { scrollbar-size: 1 1; }
    Input { scrollbar-size: 0 0; }
    ToastRack { dock: top; align: right top; margin: 2 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "keys(False)", "Help", tooltip="Show the keys of this screen"),
        # Without a tooltip it is not listed: `q` quits too.
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("ctrl+p", "keys(True)", "Palette", show=False, tooltip="Search the actions of this screen"),
        Binding("b", "choose_round", "Round", show=False, tooltip="Choose the round of the lists and of new runs"),
        *(
            Binding(str(number), f"go_to_page({name!r})", name, False, tooltip=f"Go to the page of {name.lower()}")
            for number, name in enumerate(TABS, 1)
        ),
        Binding("f3", "notifications", "Notifications", show=False, tooltip="Show the notifications so far"),
        Binding("f4", "change_theme", "Theme", show=False, tooltip="Change the colours"),
    ]

    def __init__(
        self, *, watched: RunFolder | None = None, attacks_folder: Path | None = None, notice: str | None = None
    ) -> None:
        """Open the run `watched` above the main screen, and show the `notice`, if they are given.

        Raises HarnessError if the settings are not valid.
        """
        super().__init__()
        self.crash: Exception | None = None
        """The unexpected error that ended the application."""
        self.end_signal: int | None = None
        """The signal that ended the application."""
        self.watched = watched
        self._notice = notice
        self._settings: Settings = read_settings()
        if self._settings.theme is not None and self._settings.theme not in self.available_themes:
            themes = ", ".join(sorted(self.available_themes))
            raise setting_error("theme", f"unknown theme. Choose one of {themes}")
        default_round()
        has_round = watched is None and "round" in self._settings.model_fields_set
        self._round_choice: str | None = self._settings.round if has_round else None
        self._round_name: str | None = _round_name(self._round_choice)
        self._feed = OverviewFeed(attacks_folder)
        self.overview: Overview | None = None
        self.running_ids: set[str] = set()
        """The runs and audits that go on without the application."""
        self._notified: dict[str, str] = {}
        """The notifications by their number and time."""
        self._is_closed = Event()
        self._poll_now = Event()

    def on_mount(self) -> None:
        open_log()
        _LOG.info("version %s, %s on %s", __version__, self.size, os.environ.get("TERM", "no terminal"))
        theme = self._settings.theme or load_theme()
        if theme in self.available_themes:
            self.theme = str(theme)
        self.main = MainScreen()
        self.push_screen(self.main)
        if self.watched is not None:
            self.push_screen(screen_for(self.watched))
        if self._notice is not None:
            self.notify(self._notice, timeout=_NOTICE_SECONDS)
        self._poll()

    def on_unmount(self) -> None:
        gc.unfreeze()
        self._is_closed.set()
        self._poll_now.set()

    # The state of the machine.

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        while not self._is_closed.is_set():
            self._poll_now.clear()
            self.call_later(self._apply, self._feed.poll())
            if has_lost_terminal():
                # Textual would ask for keys without a pause.
                self.call_later(self.close_by_signal, signal.SIGHUP)
                return
            self._poll_now.wait(_POLL_SECONDS)

    def _apply(self, overview: Overview) -> None:
        # While the application closes, a page may already have lost its widgets.
        if not self.is_running or not self.main.is_mounted:
            self._poll_now.set()
            return
        overview = replace(overview, round_choice=self._round_choice, round_name=self._round_name)
        before, self.overview = self.overview, overview
        if before is None:
            # A full collection would look at every imported module: a key waited for 100 ms.
            gc.freeze()
            gc.enable()
        if overview == before:
            return
        with self.batch_update():
            for screen in self.screen_stack:
                for bar in screen.query(TopBar):
                    bar.show(overview)
            self.write_title(f"harness · {work_in_words(overview)}")
            self._announce_ends(overview)
            self.main.show(overview)

    def on_top_bar_mounted(self, event: TopBar.Mounted) -> None:
        """Fill the bar of a screen that has just been opened."""
        if self.overview is not None:
            event.bar.show(self.overview)

    def _announce_ends(self, overview: Overview) -> None:
        for run in overview.runs:
            if run.id in self.running_ids and run.status.is_over:
                self._announce_end(run)
        self.running_ids = {run.id for run in overview.runs if not run.status.is_over}

    # The round.

    def action_choose_round(self) -> None:
        # These imports are inside functions to keep the first paint fast.
        from harness.tui.screens.dialogs import RoundDialog

        self.push_screen(RoundDialog(self._round_choice), if_answered(self.action_use_round))

    def action_use_round(self, choice: str) -> None:
        """Show the runs of a round; of all rounds for an empty choice."""
        self._round_choice = choice or None
        self._round_name = _round_name(self._round_choice)
        if self.overview is not None:
            self._apply(self.overview)

    # Keys.

    def action_keys(self, is_palette: bool) -> None:
        from harness.tui.screens.keys import KeysScreen

        named = self._named_entries() if is_palette else []

        def run(choice: tuple[str, DOMNode]) -> None:
            self.call_later(self.run_action, *choice)

        self.push_screen(KeysScreen(self.screen, named, is_palette=is_palette), if_answered(run))

    def _named_entries(self) -> "list[KeyEntry]":
        """Return an entry for each run, attack and round, which the palette finds by name."""
        from harness.tui.screens.keys import KeyEntry

        overview = self.overview
        runs = () if overview is None else overview.runs
        attacks = () if overview is None else overview.attacks
        named = [("Runs", run.id, run.labelled_attack, f"open_run({run.id!r})") for run in runs]
        named += [("Attacks", file.name, file.summary, f"show_attack({str(file.path)!r})") for file in attacks]
        rounds = dict.fromkeys([*built_in_rounds(), *recent_rounds()])
        named += [("Rounds", name, "Show the runs of this round", f"use_round({name!r})") for name in rounds]
        return [KeyEntry(group, name, words, "", action, self) for group, name, words, action in named]

    def action_open_run(self, id_: str) -> None:
        self.push_screen(screen_for(RunFolder.of(id_)))

    async def action_show_attack(self, path: str) -> None:
        await self._return_to_main()
        await self.main.show_attack(path)

    def action_notifications(self) -> None:
        from harness.tui.screens.dialogs import ChoiceDialog

        # The newest one first.
        self.push_screen(ChoiceDialog("Notifications", dict(reversed(self._notified.items())) or {"none": ""}))

    def action_change_theme(self) -> None:
        from harness.tui.screens.dialogs import ThemeDialog

        before = self.theme

        def choose(theme: str | None) -> None:
            self.theme = theme or before
            save_theme(self.theme)

        self.push_screen(ThemeDialog("Theme", dict.fromkeys(sorted(self.available_themes), ""), before), choose)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable all keys but help in a dialog or a form, and the digit of the page that has the focus."""
        if action in ("keys", "choose_round", "notifications", "go_to_page"):
            is_taken = action != "keys" and getattr(self.screen, "TAKES_LETTERS", isinstance(self.screen, ModalScreen))
            is_here = isinstance(self.screen, MainScreen) and self.screen.is_at(str(*parameters))
            return not (is_taken or is_here)
        return super().check_action(action, parameters)

    def notify(self, message: str, *, severity: SeverityLevel = "information", **options: Any) -> None:
        """Show `message` as a notification and write it to the log, also after the application's end."""
        _LOG.log(logging.ERROR if severity == "error" else logging.INFO, "notification: %s", message)
        key = f"{len(self._notified) + 1} · {time.strftime('%H:%M:%S')}"
        self._notified[key] = ". ".join(filter(None, (options.get("title"), message)))
        super().notify(message, severity=severity, **options)

    def _handle_exception(self, error: Exception) -> None:
        _LOG.critical("internal error", exc_info=error)
        self.crash = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print a page of traceback over the terminal; the log has it, and `show` raises the error.
        self.bell()
        self._close_messages_no_wait()

    def close_by_signal(self, number: int) -> None:
        """Close the application because of a signal."""
        self.end_signal = self.end_signal or number
        # If the terminal does not take output any more, the event loop may wait for it forever.
        signal.signal(signal.SIGALRM, lambda *_: end_process(number))
        signal.alarm(_SECONDS_TO_CLOSE)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.exit)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy with OSC 52, or through tmux inside tmux, which ignores OSC 52 by default."""
        text = text.encode(errors="replace").decode()
        if os.environ.get("TMUX") and shutil.which("tmux"):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["tmux", "load-buffer", "-w", "-"], input=text.encode(), timeout=2, check=True)
                return
        super().copy_to_clipboard(text)

    def _announce_end(self, run: RunSummary) -> None:
        """Ring the bell, show the score, and start the user's command `on_finish`, without a shell."""
        from harness.sweeps.record import SWEEPS  # not before the first paint
        from harness.sweeps.tuning import TUNINGS

        # A tuning and a sweep have hundreds of runs.
        if run.parent not in (*TUNINGS.ids(), *SWEEPS.ids()):
            self.bell()
            recall = run.known_recall
            self.notify(
                "" if recall is None else f"Recall@{run.error_cap} {format_score(recall)}{run.interval_text}",
                title=sanitize(f"{run.id} {run.status.words}"),
                severity="information" if run.status.is_complete else "warning",
            )
        if not self._settings.on_finish:
            return
        variables = {"HARNESS_RUN": run.id, "HARNESS_STATUS": str(run.status)}
        try:
            subprocess.Popen(
                self._settings.on_finish,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.notify(f"on_finish cannot be started ({error}).", severity="error")

    async def on_run_actions_asked(self, event: RunActions.Asked) -> None:
        """Show the comparison of a run, the form with its values, or the attacks for a new run."""
        if event.folder is None:
            await self._return_to_main()
            await self.main.choose_attack()
        elif event.is_compared:
            self.main.compare(event.folder)
        else:
            self.main.duplicate(event.folder)

    async def action_go_to_page(self, name: str) -> None:
        self.clear_notifications()
        await self._return_to_main()
        await self.main.go_to_page(name)

    def action_leave_for(self, name: str) -> None:
        """Go to a page whose tab was clicked, but not from a form whose command runs: it shows how that ends."""
        # After the present message: a screen that is removed while it mounts widgets ends the application.
        if not getattr(self.screen, "is_running_command", False):
            self.call_later(self.action_go_to_page, name)

    async def _return_to_main(self) -> None:
        while self.screen is not self.main:
            await self.pop_screen()
