"""Keys in the order in which they were typed.

Textual hands a key to the widget that has the focus when the key arrives. Over SSH keys arrive in bursts: after Tab or
`/`, the next keys would land in the widget that is about to lose the focus. Here a key waits until the one before has
been handled by every widget that it concerns.
"""

from collections import deque

from textual.events import Event, Key
from textual.message import Message

from harness.tui.changed_cells import ChangedCellsApp

_ROUNDS = 2
"""Number of times that a marker follows the key: behind its handlers, then behind the messages that they post."""
_LOST_SECONDS = 0.5


class KeyHandled(Message, bubble=True):
    """Follows a key through the queues of the same widgets up to the application."""

    def __init__(self, number: int, rounds: int) -> None:
        super().__init__()
        self.number, self.rounds = number, rounds


class OrderedKeysApp(ChangedCellsApp):
    """An application that handles one key after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting_keys: deque[Key] = deque()
        self._key_number = 0
        self._is_handling_key = False

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._is_handling_key:
            self._waiting_keys.append(event)
        else:
            await self._handle_key(event)

    async def on_key_handled(self, event: KeyHandled) -> None:
        """Let the next key go ahead once the marker has gone its rounds."""
        if event.number != self._key_number or not self._is_handling_key:
            return
        if event.rounds > 1:
            # Behind the callbacks that the handlers have scheduled, such as a change of the focus.
            self.call_later(self._post_marker, event.rounds - 1)
        else:
            self.call_later(self._next_key)

    async def _handle_key(self, event: Key) -> None:
        self._is_handling_key = True
        self._key_number += 1
        number = self._key_number
        await super().on_event(event)
        # A widget that is removed takes the marker with it.
        self.set_timer(_LOST_SECONDS, lambda: self._give_up(number))
        self._post_marker(_ROUNDS)

    def _post_marker(self, rounds: int) -> None:
        target = self.focused or (self.screen if self.screen_stack else self)
        if not target.post_message(KeyHandled(self._key_number, rounds)):
            self.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._is_handling_key = False
        if self._waiting_keys:
            await self._handle_key(self._waiting_keys.popleft())

    async def _give_up(self, number: int) -> None:
        if number == self._key_number and self._is_handling_key:
            await self._next_key()
