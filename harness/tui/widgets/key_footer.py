"""The footer of every screen: Textual's own, made anew only when it would look different."""

from textual.screen import Screen
from textual.widgets import Footer


class KeyFooter(Footer):
    """The keys that do something now.

    Textual makes its footer anew whenever the focus moves, which takes tens of milliseconds, and keeps every key that
    it ever showed: over a day that is a leak.
    """

    def __init__(self) -> None:
        super().__init__(compact=True)
        self._keys_shown: list[tuple[str, str, bool]] | None = None

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Make the footer anew if other keys are to be shown."""
        keys = [
            (active.binding.key, active.binding.description, active.enabled)
            for active in screen.active_bindings.values()
            if active.binding.show
        ]
        if keys != self._keys_shown:
            self._keys_shown = keys
            super().bindings_changed(screen)

    async def recompose(self) -> None:
        """Make the footer anew, and let go of what it showed before."""
        await super().recompose()
        # Each key is bound to this value, and unbound only when it is looked at.
        self.mutate_reactive(Footer.compact)
