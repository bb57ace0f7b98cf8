"""The application: which screen stands first, the user's settings, and what concerns every screen."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from harness.core.errors import HarnessError
from harness.core.visible import visible
from harness.runs.folder import RunFolder
from harness.tui.configuration import Configuration, read_configuration
from harness.tui.screens.home import HomeScreen
from harness.tui.screens.run import RunScreen


class HarnessApp(App[None]):
    """Home, and above it whatever was opened; ending it touches no run."""

    TITLE = "harness"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark", "toggle_help", "Help"),
        Binding("f2", "screenshot", "Screenshot", show=False),
    ]

    def __init__(self, *, watched: RunFolder | None = None, attacks_folder: Path | None = None) -> None:
        """Begin with the run `watched`, else with Home. Raises HarnessError when the settings do not hold."""
        super().__init__()
        self._watched = watched
        self._attacks_folder = attacks_folder
        self._settings: Configuration = read_configuration()
        if self._settings.theme is not None and self._settings.theme not in self.available_themes:
            raise HarnessError(
                f"the configured theme {visible(self._settings.theme)[:40]!r} is unknown: "
                f"{', '.join(sorted(self.available_themes))}."
            )

    def on_mount(self) -> None:
        """Show the first screen."""
        if self._settings.theme is not None:
            self.theme = self._settings.theme
        self.push_screen(HomeScreen(attacks_folder=self._attacks_folder, round_name=self._settings.round))
        if self._watched is not None:
            self.push_screen(RunScreen(self._watched))

    def action_toggle_help(self) -> None:
        """Keys of whatever has the focus, or away with them."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def copy_to_clipboard(self, text: str) -> None:
        """By OSC 52; inside tmux through tmux, which ignores a bare OSC 52 unless told otherwise."""
        text = text.encode(errors="replace").decode()
        if os.environ.get("TMUX") and shutil.which("tmux"):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["tmux", "load-buffer", "-w", "-"], input=text.encode(), timeout=2, check=True)
                return
        super().copy_to_clipboard(text)

    def on_run_screen_ended(self, event: RunScreen.Ended) -> None:
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
            self.notify(visible(f"on_finish did not start ({error})"), severity="error", markup=False)
