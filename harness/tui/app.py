"""The application: which screen stands first, the user's settings, and what concerns every screen."""

import contextlib
import logging
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen

from harness import __version__
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.configuration import Configuration, fault_in_setting, read_configuration
from harness.tui.logbook import open_logbook
from harness.tui.screens.home import HomeScreen
from harness.tui.screens.opened import screen_of
from harness.tui.screenshot import drawn_png, saved_svg

_LOG = logging.getLogger(__name__)


def show(app: "HarnessApp") -> None:
    """Run `app` in this terminal until it is left. Raises what ended it otherwise, the terminal being itself again."""
    app.run()
    if app.defect is not None:
        raise app.defect


class HarnessApp(App[None]):
    """Home, and above it whatever was opened; ending it touches no run."""

    TITLE = "harness"
    CSS = """
    DataTable, RichLog, GuessStream, VerticalScroll, ScrollableContainer, OptionList { scrollbar-size: 1 1; }
    Footer { scrollbar-size: 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark", "toggle_help", "Help", tooltip="The keys of what has the focus, and what it is"),
        Binding("f2", "screenshot", "Screenshot", show=False, tooltip="Save the screen as an SVG"),
        Binding("f3", "screenshot_png", "Screenshot as PNG", show=False, tooltip="Save the screen as SVG and PNG"),
    ]

    def __init__(self, *, watched: RunFolder | None = None, attacks_folder: Path | None = None) -> None:
        """Begin with the run `watched`, else with Home. Raises HarnessError when the settings do not hold."""
        super().__init__()
        self.defect: Exception | None = None
        """What ended the application, if it was not the user."""
        self.watched = watched
        """The run that is opened first, above Home."""
        self._attacks_folder = attacks_folder
        self._settings: Configuration = read_configuration()
        if self._settings.theme is not None and self._settings.theme not in self.available_themes:
            raise fault_in_setting("theme", f"unknown; there are {', '.join(sorted(self.available_themes))}")
        try:
            load_round(self._settings.round)
        except (HarnessError, OSError) as error:
            raise fault_in_setting("round", str(error).rstrip(".")) from None

    def on_mount(self) -> None:
        """Show the first screen."""
        open_logbook()
        _LOG.info("version %s, %s on %s", __version__, self.size, os.environ.get("TERM", "no terminal"))
        if self._settings.theme is not None:
            self.theme = self._settings.theme
        self.push_screen(HomeScreen(attacks_folder=self._attacks_folder, round_name=self._settings.round))
        if self.watched is not None:
            self.push_screen(screen_of(self.watched))

    def action_toggle_help(self) -> None:
        """Keys of whatever has the focus, or away with them."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that a key does here, and themes."""
        for active in _named_actions(screen):
            key = self.get_key_display(active.binding)
            words = f"{active.binding.tooltip} ({key})"
            run = partial(self.run_action, active.binding.action, active.node)
            yield SystemCommand(active.binding.description, words, run)
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        """Save the screen as an SVG."""
        self._save_screenshot(self.export_screenshot(), as_png=False)

    def action_screenshot_png(self) -> None:
        """Save the screen as an SVG and as a PNG."""
        self._save_screenshot(self.export_screenshot(), as_png=True)

    @work(thread=True, group="screenshot")
    def _save_screenshot(self, svg: str, *, as_png: bool) -> None:
        try:
            file = saved_svg(svg)
            words = f"saved {drawn_png(file) if as_png else file}"
        except HarnessError as error:
            self.notify(sanitize(str(error)), severity="error", markup=False)
            return
        self.notify(sanitize(words), markup=False)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Say `message` on the screen, and in the log."""
        _LOG.log(logging.ERROR if severity == "error" else logging.INFO, "said: %s", message)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def _handle_exception(self, error: Exception) -> None:
        _LOG.critical("a defect of its own", exc_info=error)
        self.defect = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print a page of traceback over the terminal; the log has it, and `show` raises the error.
        self.bell()
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        """By OSC 52; inside tmux through tmux, which ignores a bare OSC 52 unless told otherwise."""
        text = text.encode(errors="replace").decode()
        if os.environ.get("TMUX") and shutil.which("tmux"):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["tmux", "load-buffer", "-w", "-"], input=text.encode(), timeout=2, check=True)
                return
        super().copy_to_clipboard(text)

    def on_home_screen_ended(self, event: HomeScreen.Ended) -> None:
        """Ring, and start the user's own command, never through a shell."""
        self.bell()
        if not self._settings.on_finish:
            return
        told = {"HARNESS_RUN": event.summary.id, "HARNESS_STATUS": str(event.summary.status)}
        try:
            subprocess.Popen(
                self._settings.on_finish,
                env=os.environ | told,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.notify(sanitize(f"on_finish did not start ({error})"), severity="error", markup=False)


def _named_actions(screen: Screen[object]) -> list[ActiveBinding]:
    """The actions that a key does now, once each; Textual's own ways to move about have no tooltip."""
    named: dict[tuple[object, str], ActiveBinding] = {}
    for active in screen.active_bindings.values():
        if active.enabled and active.binding.tooltip and active.binding.action != "command_palette":
            named.setdefault((active.node, active.binding.action), active)
    return list(named.values())
