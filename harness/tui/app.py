"""The application: its first screen, the user's settings, and the actions that every screen has."""

import contextlib
import logging
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen

from harness import __version__
from harness.core.errors import HarnessError
from harness.core.settings import Settings, default_round, read_settings, setting_error
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.screen_log import open_log
from harness.tui.screens.by_job import screen_for
from harness.tui.screens.home import HomeScreen
from harness.tui.screenshot import convert_to_png, save_svg

_LOG = logging.getLogger(__name__)


def show(app: "HarnessApp") -> None:
    """Run `app` until the user closes it. An unexpected error is raised after the terminal has been restored."""
    app.run()
    if app.crash is not None:
        raise app.crash


class HarnessApp(App[None]):
    """Home, and above it the screens that were opened."""

    TITLE = "harness"
    CSS = """
    DataTable, RichLog, GuessStream, VerticalScroll, ScrollableContainer, OptionList { scrollbar-size: 1 1; }
    Footer { scrollbar-size: 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark", "toggle_help", "Help", tooltip="Show the keys of the focused widget, or hide them"),
        Binding("f2", "screenshot", "Screenshot", show=False, tooltip="Save the screen as an SVG"),
        Binding("f3", "screenshot_png", "Screenshot as PNG", show=False, tooltip="Save the screen as SVG and PNG"),
    ]

    def __init__(self, *, watched: RunFolder | None = None, attacks_folder: Path | None = None) -> None:
        """Open the run `watched` above Home if given. Raises HarnessError if the settings are not valid."""
        super().__init__()
        self.crash: Exception | None = None
        """The unexpected error that ended the application."""
        self.watched = watched
        self._attacks_folder = attacks_folder
        self._settings: Settings = read_settings()
        if self._settings.theme is not None and self._settings.theme not in self.available_themes:
            themes = ", ".join(sorted(self.available_themes))
            raise setting_error("theme", f"unknown theme. Choose one of {themes}")
        self._round = default_round()

    def on_mount(self) -> None:
        open_log()
        _LOG.info("version %s, %s on %s", __version__, self.size, os.environ.get("TERM", "no terminal"))
        if self._settings.theme is not None:
            self.theme = self._settings.theme
        self.push_screen(HomeScreen(attacks_folder=self._attacks_folder, round_name=self._round))
        if self.watched is not None:
            self.push_screen(screen_for(self.watched))

    def action_toggle_help(self) -> None:
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield every action that has a key on this screen, and the choice of a theme."""
        for active in _described_bindings(screen):
            key = self.get_key_display(active.binding)
            run = partial(self.run_action, active.binding.action, active.node)
            yield SystemCommand(active.binding.description, f"{active.binding.tooltip} ({key})", run)
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        self._save_screenshot(self.export_screenshot(), as_png=False)

    def action_screenshot_png(self) -> None:
        self._save_screenshot(self.export_screenshot(), as_png=True)

    @work(thread=True, group="screenshot")
    def _save_screenshot(self, svg: str, *, as_png: bool) -> None:
        try:
            file = save_svg(svg)
            if as_png:
                file = convert_to_png(file)
        except HarnessError as error:
            self.notify(sanitize(str(error)), severity="error", markup=False)
            return
        self.notify(sanitize(f"Saved {file}"), markup=False)

    def notify(self, message: str, *, severity: SeverityLevel = "information", **options: Any) -> None:
        """Show `message` as a notification and write it to the log, also after the application's end."""
        _LOG.log(logging.ERROR if severity == "error" else logging.INFO, "notification: %s", message)
        super().notify(message, severity=severity, **options)

    def _handle_exception(self, error: Exception) -> None:
        _LOG.critical("internal error", exc_info=error)
        self.crash = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print a page of traceback over the terminal; the log has it, and `show` raises the error.
        self.bell()
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy with OSC 52, or through tmux inside tmux, which ignores OSC 52 by default."""
        text = text.encode(errors="replace").decode()
        if os.environ.get("TMUX") and shutil.which("tmux"):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["tmux", "load-buffer", "-w", "-"], input=text.encode(), timeout=2, check=True)
                return
        super().copy_to_clipboard(text)

    def on_home_screen_run_ended(self, event: HomeScreen.RunEnded) -> None:
        """Ring the bell and start the user's command `on_finish`, without a shell."""
        self.bell()
        if not self._settings.on_finish:
            return
        variables = {"HARNESS_RUN": event.summary.id, "HARNESS_STATUS": str(event.summary.status)}
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
            self.notify(sanitize(f"on_finish cannot be started ({error})."), severity="error", markup=False)


def _described_bindings(screen: Screen[object]) -> list[ActiveBinding]:
    """Return each enabled action once; Textual's own bindings that move the cursor have no tooltip and are left out."""
    actions: dict[tuple[object, str], ActiveBinding] = {}
    for active in screen.active_bindings.values():
        if active.enabled and active.binding.tooltip and active.binding.action != "command_palette":
            actions.setdefault((active.node, active.binding.action), active)
    return list(actions.values())
