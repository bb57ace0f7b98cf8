"""The footer of every screen: the keys that do something here."""

from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget

_GAP = 2


class KeyFooter(Widget):
    """One line with as many whole entries as fit. A click on one presses its key.

    Textual's own footer has a widget for each key and makes all of them again whenever the focus moves, so that the
    screen is arranged twice more for each key.
    """

    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; padding: 0 1; color: $footer-foreground; background: $footer-background;
        text-wrap: nowrap; link-style: none; link-color: $footer-description-foreground; link-background: transparent;
    }
    """
    ALLOW_SELECT = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def _bindings_changed(self, _: Screen[object]) -> None:
        self.refresh()

    def render(self) -> Content:
        """Return the entries that fit, in the order of the bindings."""
        entries: list[Content] = []
        actions, room = set(), self.size.width
        for _, binding, is_enabled, _ in self.screen.active_bindings.values():
            if not binding.show or binding.action in actions:
                continue
            actions.add(binding.action)
            key = self.app.get_key_display(binding)
            entry = Content.assemble(
                (key, "bold $footer-key-foreground"), (f" {binding.description}", "$footer-description-foreground")
            )
            room -= entry.cell_length + (_GAP if entries else 0)
            if room < 0:
                break
            if is_enabled:
                entry = entry.stylize(Style.from_meta({"@click": f"press({binding.key!r})"}))
            entries.append(entry if is_enabled else entry.stylize("dim"))
        return Content(" " * _GAP).join(entries)

    def action_press(self, key: str) -> None:
        """Press a key for the widget that has the focus."""
        self.app.simulate_key(key)
