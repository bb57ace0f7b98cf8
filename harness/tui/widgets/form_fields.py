"""The fields of a form, one below the other, validated while they are edited."""

from collections.abc import Mapping, Sequence
from functools import partial

from textual import on
from textual.containers import VerticalScroll
from textual.message import Message

from harness.core.errors import HarnessError
from harness.tui.form import FROM_ROUND, Field, FieldKind
from harness.tui.validation import DISK_KINDS, round_description, round_values, validation_error
from harness.tui.widgets.field_row import FieldRow


class FormFields(VerticalScroll):
    """All fields with their validation errors."""

    HELP = (
        "The values of the run; the command line below starts the same run. Enter goes to the next field, and errors "
        "appear beside the field. An empty field uses the value shown in grey."
    )

    class Edited(Message):
        """A value has changed."""

    async def show(self, fields: Sequence[Field], values: Mapping[str, str]) -> None:
        """Mount the fields with `values`, by field key, and focus the first one."""
        rows = [FieldRow(field, values[field.key]) for field in fields]
        await self.mount_all(rows)
        for row in rows:
            self._validate(row)
        rows[0].focus_control()

    def values(self) -> dict[str, str]:
        """Return the text of each field by its key."""
        return {row.field.key: row.text for row in self.query(FieldRow)}

    def show_errors(self, errors: Mapping[str, str]) -> None:
        """Show these errors, by field key, and focus the first field with one."""
        rows = [row for row in self.query(FieldRow) if row.field.key in errors]
        for row in rows:
            row.show_error(errors[row.field.key])
        if rows:
            rows[0].focus_control()

    @on(FieldRow.Edited)
    def _edited(self, event: FieldRow.Edited) -> None:
        event.stop()
        self._validate(event.row)
        self.post_message(self.Edited())

    def _validate(self, row: FieldRow) -> None:
        if row.field.kind in DISK_KINDS:
            validate = partial(self._validate_in_thread, row, row.text)
            self.run_worker(validate, thread=True, exclusive=True, group=f"validate {row.field.key}")
        else:
            row.show_error(validation_error(row.field, row.text))

    def _validate_in_thread(self, row: FieldRow, text: str) -> None:
        error, note = validation_error(row.field, text), ""
        values: Mapping[str, str] = {}
        if error is None and text.strip() and row.field.kind is FieldKind.ROUND:
            try:
                note, values = round_description(text), round_values(text)
            except HarnessError as unreadable:
                error = str(unreadable)
        self.call_later(self._show_check, row, text, error, note, values)

    def _show_check(
        self, checked: FieldRow, text: str, error: str | None, note: str, round_values: Mapping[str, str]
    ) -> None:
        if checked.text != text:
            return
        checked.show_error(error, note=note)
        if checked.field.key == "--round":
            for row in self.query(FieldRow):
                if row.field.empty_means == FROM_ROUND:
                    value = round_values.get(row.field.key)
                    row.show_placeholder(FROM_ROUND if value is None else f"{value} ({FROM_ROUND})")
