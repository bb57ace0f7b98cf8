"""The footer of every screen: Textual's footer, rebuilt only when its keys change."""

from textual.screen import Screen
from textual.widgets import Footer


class KeyFooter(Footer):
    """The keys that work now.

    Textual rebuilds its footer whenever the focus moves, which takes tens of milliseconds, and keeps a reference to
    every key that it ever showed, which leaks memory in a screen that is open for a day.
    """

    DEFAULT_CSS = """
    KeyFooter {
        padding: 0 0 0 1;
        &.-compact FooterKey { margin-right: 2; }
    }
    """

    def __init__(self) -> None:
        super().__init__(compact=True)
        self._keys_shown: list[tuple[str, str, bool]] | None = None

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Rebuild the footer if it has to show other keys."""
        keys = [
            (active.binding.key, active.binding.description, active.enabled)
            for active in screen.active_bindings.values()
            if active.binding.show
        ]
        if keys != self._keys_shown:
            self._keys_shown = keys
            super().bindings_changed(screen)

    async def recompose(self) -> None:
        """Rebuild the footer and release the old keys."""
        await super().recompose()
        # The old keys are bound to this reactive, and it drops removed widgets only when it changes.
        self.mutate_reactive(Footer.compact)
