"""The form that asks how the code of a bundle runs again. It is a stranger's code, so nothing is chosen in advance."""

import shlex
from pathlib import Path
from threading import Event
from typing import Any

from textual.content import Content

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.core.times import format_duration
from harness.sandbox.backends import detect_backend
from harness.submit.verify_options import VerifyOptions
from harness.tui.form import Form, option_fields
from harness.tui.screens.form import FormScreen, Source


class VerifyScreen(FormScreen):
    """Asks how to run the code of a bundle again. The result is the command line, which the leaderboard runs."""

    HELP = (
        "Runs the code of the bundle in the sandbox, without network, and compares the guesses. Choose the environment "
        "that it runs in: your own, or wheels of a directory. You may leave the page while it runs."
    )
    TAB = "Leaderboard"

    def __init__(self, bundle: Path, *, round_name: str, seconds: float | None) -> None:
        """seconds: that the run of the team took."""
        super().__init__()
        self._bundle, self._round_name, self._seconds, self._sandbox = bundle, round_name, seconds, ""

    def heading(self) -> Content:
        """Return the name of the bundle, and what its code does."""
        name = sanitize(self._bundle.name)
        return Content.assemble(("Verify · ", "bold"), (name, "bold"), "  runs a stranger's code")

    def load(self) -> Form:
        """Return the form. Raises HarnessError without a sandbox."""
        backend = detect_backend()
        if not backend.is_sandbox:
            raise HarnessError("no sandbox works here, and the bundle's code is a stranger's. See harness doctor.")
        self._sandbox = backend.name
        command = ("bundle", "verify", str(self._bundle), "--round", self._round_name)
        fields = tuple(option_fields(VerifyOptions))
        return Form(command, "bundle verify", fields, groups=(("--own-environment", "--wheels"),))

    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the defaults, with which nothing runs."""
        return [("the defaults", form.defaults)]

    def show_source(self) -> None:
        """Show the sandbox and the expected time."""
        took = "" if self._seconds is None else f" The team's run took {format_duration(self._seconds)}."
        self.show_state(f"Sandbox: {self._sandbox}, no network.{took} The installation comes on top.")

    def action_start(self) -> None:
        """Close the form, once the user has chosen an environment."""
        self.start()

    def answer_of(self, command: list[str], cancelled: Event) -> dict[str, Any]:
        """Return the command."""
        return {"id": shlex.join(command)}
