"""The form of a new audit, made from the options of its command."""

from textual.content import Content

from harness.audits.registry import AUDITS
from harness.tui.form import Form, audit_form
from harness.tui.form_history import load_values
from harness.tui.screens.start import Sources, StartScreen


class NewAuditScreen(StartScreen):
    """Asks for the values of an audit."""

    def __init__(self, audit: str, *, round_name: str) -> None:
        super().__init__()
        self._audit = audit
        self._round_name = round_name

    def heading(self) -> Content:
        """Return the audit's name and its question."""
        return Content.assemble((f"New audit · {self._audit}  ", "bold"), AUDITS[self._audit].question)

    def load(self, *, is_retry: bool) -> tuple[Form, Sources]:
        """Return the form of the audit's options."""
        form = audit_form(self._audit)
        defaults = {field.key: field.default or "" for field in form.fields}
        here = {"--round": self._round_name} if "--round" in defaults else {}
        sources = [("the defaults, on the chosen round", defaults | here)]
        if last := load_values(form.name, form.fields):
            sources.insert(0, ("of the last audit", defaults | last | here))
        return form, sources
