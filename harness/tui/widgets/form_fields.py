"""The fields of a form: one row each, with completion of paths."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester, SuggestFromList
from textual.widget import Widget
from textual.widgets import Collapsible, Input, Label, Select, Static, Switch

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.rounds import Round, built_in_rounds, load_round
from harness.core.text import sanitize, shorten
from harness.core.times import format_duration
from harness.tui.form import FROM_ROUND, Field, FieldKind, Form, round_description

_FOLDED = ("Model", "Device", "Cluster", "Endpoint")
"""The sections that are folded while all of their values are the defaults."""
_MAX_ENTRIES = 10_000
_MAX_TEXT = 1000
_MAX_HELP = 240
_NO_CONTROLS = r"[^\x00-\x1f\x7f-\x9f]*"


class PathSuggester(Suggester):
    """Suggests the alphabetically first name that completes the path; a directory ends in a slash."""

    def __init__(self) -> None:
        # No cache, because files change while the user types.
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the completed path. This runs in a thread because a directory may be slow to list."""
        return await asyncio.to_thread(complete_path, value)


def complete_path(text: str) -> str | None:
    """Return `text` completed with the first matching name, or None if there is none.

    Hidden names match only after a typed dot. Names with control characters are never suggested.
    """
    folder, slash, start = text.rpartition("/")
    try:
        with os.scandir(expand_home(folder + slash) if slash else Path()) as entries:
            names = sorted(
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, _MAX_ENTRIES)
                if entry.name.startswith(start) and entry.name.startswith(".") == start.startswith(".")
            )
    except (HarnessError, OSError, ValueError):
        return None
    return next((f"{folder}{slash}{name}" for name in names if name != start and sanitize(name) == name), None)


class FieldRow(Vertical):
    """A field on the screen. `text` is its value as the command line takes it."""

    @dataclass
    class Edited(Message):
        """The text of a row has changed; the row has been checked."""

        row: "FieldRow"

    @dataclass
    class Described(Message):
        """A row has the focus, or what is known about its value has changed."""

        row: "FieldRow"

    def __init__(self, field: Field, text: str) -> None:
        super().__init__()
        self.field = field
        self.text = self._initial = text
        self.help = ""
        """The purpose of the field, or what is known about its value."""
        self._need = ""
        self._error = Static(Content(""), classes="error")
        self._label = Label("", classes="name")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="line"):
            yield self._label
            yield self._control()
            yield self._error

    @property
    def is_changed(self) -> bool:
        """True if the value is not the default; a needed value has none."""
        return self.field.default is not None and self.field.value_of(self.text) is not None

    def show_error(self, error: str | None, *, note: str = "") -> None:
        """Show `error` after the control; a `note` replaces the help."""
        self.set_class(error is not None, "-faulty")
        # A switch shows its position only by colour, which some terminals lack.
        words = f"✗ {error}" if error else "" if self.field.kind is not FieldKind.SWITCH else self.text
        self._error.update(Content(sanitize(words)))
        facts = self.field.facts and f"{self.field.facts[:1].upper()}{self.field.facts[1:]}."
        self.help = shorten(" ".join((note or f"{self.field.description} {facts}").split()), _MAX_HELP)
        if self.has_focus_within:
            # From its own queue: Textual does not let a message that the parent sends bubble past the parent.
            self.call_later(self._describe)

    def show_need(self, words: str) -> None:
        """Mark the field as needed, in the words of its placeholder, or as not needed."""
        marks = "● " if self.is_changed else "", " *" if words or self.field.default is None else ""
        if (label := Content(sanitize(self.field.name).join(marks))) != self._label.content:
            self._label.update(label)
        if words != self._need:
            self._need = words
            self.show_placeholder(words or self.field.placeholder)

    def show_placeholder(self, text: str) -> None:
        """Replace the placeholder of the input, if it is one."""
        for control in self.query(Input):
            control.placeholder = sanitize(shorten(text))

    def focus_control(self) -> None:
        """Focus the control."""
        self.query(".control").focus()

    def on_descendant_focus(self) -> None:
        """Highlight the row, scroll it into view and describe it."""
        self.add_class("-focused")
        self.scroll_visible(animate=False)
        self._describe()

    def _describe(self) -> None:
        self.post_message(self.Described(self))

    def on_descendant_blur(self) -> None:
        self.remove_class("-focused")

    def _control(self) -> Widget:
        if self.field.kind is FieldKind.SWITCH:
            return Switch(self.text == "true", animate=False, classes="control")
        if self.field.kind is FieldKind.CHOICE:
            is_known = self.text in self.field.choices
            return Select[str](
                # A Rich Text is never parsed as markup.
                [(Text(sanitize(choice)), choice) for choice in self.field.choices],
                prompt="choose",
                value=self.text if is_known else Select.NULL,
                allow_blank=not is_known,
                compact=True,
                classes="control",
            )
        suggesters = {FieldKind.ROUND: SuggestFromList(built_in_rounds()), FieldKind.PATH: PathSuggester()}
        return Input(
            _display_text(self.text),
            placeholder=sanitize(shorten(self.field.placeholder)),
            restrict=_NO_CONTROLS,
            suggester=suggesters.get(self.field.kind),
            compact=True,
            classes="control",
        )

    @on(Input.Changed)
    @on(Select.Changed)
    @on(Switch.Changed)
    def _changed(self, event: Input.Changed | Select.Changed | Switch.Changed) -> None:
        event.stop()
        text = event.value
        if isinstance(text, bool):
            text = str(text).lower()
        elif not isinstance(text, str) or (isinstance(event, Input.Changed) and text == _display_text(self._initial)):
            # No choice; or a value with control characters, which the input cannot show, before the user edits it.
            text = self._initial
        if text != self.text:
            self.text = text
            self.post_message(self.Edited(self))


def _display_text(text: str) -> str:
    return shorten(sanitize(text), _MAX_TEXT)


class FormFields(VerticalScroll):
    """All fields with their errors, which are found while the user types."""

    HELP = (
        "The values; the command line below does the same. Enter goes to the next field, or opens a section, and the "
        "right arrow completes a path. An error appears next to its field. An empty field uses the value shown in "
        "grey. * marks what is needed, ● what is not the default."
    )

    async def show(self, form: Form, values: Mapping[str, str]) -> None:
        """Mount the fields of `form` with `values`, by field key, the needed ones first, and focus the first one."""
        self._form = form
        order = [field.key for fields in form.needs for field in fields]
        rows = [FieldRow(field, values[field.key]) for field in form.fields]
        rows.sort(key=lambda row: order.index(row.field.key) if row.field.key in order else len(order))
        await self.mount_all(row for row in rows if row.field.section not in _FOLDED)
        for section in _FOLDED:
            folded = [row for row in rows if row.field.section == section]
            title = f"{section}: {', '.join(row.field.name for row in folded)}"
            if folded:
                await self.mount(Collapsible(*folded, title=title, collapsed=not any(row.is_changed for row in folded)))
        for row in rows:
            self._check(row)
        self._show_needs()
        rows[0].focus_control()

    def values(self) -> dict[str, str]:
        """Return the text of each field by its key."""
        return {row.field.key: row.text for row in self.query(FieldRow)}

    def show_errors(self, errors: Mapping[str, str]) -> None:
        """Show these errors, by field key, and focus the first field with one."""
        rows = [row for row in self.query(FieldRow) if row.field.key in errors]
        for row in rows:
            row.show_error(errors[row.field.key])
            for section in row.ancestors:
                if isinstance(section, Collapsible):
                    section.collapsed = False
        if rows:
            self.call_after_refresh(rows[0].focus_control)

    @on(FieldRow.Edited)
    def _check_edited(self, event: FieldRow.Edited) -> None:
        self._check(event.row)
        self._show_needs()

    def _show_needs(self) -> None:
        missing = self._form.missing(self.values())
        for row in self.query(FieldRow):
            row.show_need(missing.get(row.field.key, ""))

    def _check(self, row: FieldRow) -> None:
        if row.field.kind in (FieldKind.PATH, FieldKind.ROUND):
            check = partial(self._check_on_disk, row, row.text)
            self.run_worker(check, thread=True, exclusive=True, group=f"check {row.field.key}")
        else:
            row.show_error(row.field.error(row.text))

    def _check_on_disk(self, row: FieldRow, text: str) -> None:
        error, round_ = row.field.error(text), None
        if error is None and text.strip() and row.field.kind is FieldKind.ROUND:
            # The file may have changed since.
            with contextlib.suppress(HarnessError):
                round_ = load_round(text)
        self.call_later(self._show_check, row, text, error, round_)

    def _show_check(self, field_row: FieldRow, text: str, error: str | None, round_: Round | None) -> None:
        if field_row.text != text:
            return
        field_row.show_error(error, note="" if round_ is None else round_description(round_))
        if field_row.field.key == "--round":
            values = {} if round_ is None else {"--budget": format_duration(round_.budget), "--target": round_.target}
            for row in self.query(FieldRow):
                if row.field.empty_means == FROM_ROUND:
                    value = values.get(row.field.key)
                    row.show_placeholder(FROM_ROUND if value is None else f"{value} ({FROM_ROUND})")
