"""The base of the screens with numbered panels: all panels where there is room, otherwise one at a time."""

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

ResultT = TypeVar("ResultT")


class PanelScreen(Screen[ResultT]):
    """Has `#header`, a Static `#tabs`, and in `#body` a widget of the class `panel` for each id of PANELS, in order.

    A large terminal (`-wide` and `-tall`) shows all panels, in the grid of the screen's own style sheet; a smaller one
    shows the chosen panel.
    """

    DEFAULT_CSS = """
    PanelScreen {
        #header { height: auto; max-height: 4; padding: 0 1; background: $panel; }
        #tabs { height: 1; padding: 0 1; color: $text-muted; link-style: none; link-color: $text-muted; }
        #body { height: 1fr; }
        .panel {
            display: none; height: 1fr; width: 1fr; border: round $primary-darken-2; border-title-color: $foreground;
        }
        .panel.-chosen { display: block; }
        .panel:focus-within, .panel:focus { border: round $accent; }
        &.-low .panel, &.-low .panel:focus, &.-low .panel:focus-within { border: none; }
        &.-low #header { max-height: 1; }
        &.-low #tabs { display: none; }
        &.-wide.-tall #tabs { display: none; }
        &.-wide.-tall .panel { display: block; }
        &.-wide.-tall #body { layout: grid; }
    }
    """

    PANELS: ClassVar[dict[str, str]] = {}
    """The title of each panel by its id."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (12, "-high"), (34, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", tooltip="Close this screen"),
        *(
            Binding(
                f"{number}", f"panel_number({number})", f"Panel {number}", show=False, tooltip=f"Go to panel {number}"
            )
            for number in range(1, 6)
        ),
        Binding("tab", "next_panel(1)", "Next panel", show=False, tooltip="Go to the next panel"),
        Binding("shift+tab", "next_panel(-1)", "Previous panel", show=False, tooltip="Go to the previous panel"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._panel = next(iter(self.PANELS))

    def on_mount(self) -> None:
        for name, title in self.PANELS.items():
            self.panel(name).border_title = Content(title)
        self._show_panel()

    def panel(self, name: str) -> Widget:
        """Return the panel with this id."""
        return self.query_one(f"#{name}")

    def action_panel_number(self, number: int) -> None:
        names = list(self.PANELS)
        if number <= len(names):
            self.go_to_panel(names[number - 1])

    def action_next_panel(self, step: int) -> None:
        names = list(self.PANELS)
        self.go_to_panel(names[(names.index(self._panel) + step) % len(names)])

    def go_to_panel(self, name: str) -> None:
        """Show the panel and focus its first focusable widget."""
        self._panel = name
        self._show_panel()
        panel = self.panel(name)
        focusable = (part for part in (panel, *panel.query("*")) if part.focusable and part.display)
        self.set_focus(next(focusable, None))

    def action_leave(self) -> None:
        self.dismiss(None)

    def _show_panel(self) -> None:
        for name in self.PANELS:
            self.panel(name).set_class(name == self._panel, "-chosen")
        tabs = []
        for number, name in enumerate(self.PANELS, 1):
            label = f"[{number} {name}]" if name == self._panel else f" {number} {name} "
            click = Style.from_meta({"@click": f"screen.panel_number({number})"})
            tabs += [Content.styled(label, click), Content("  ")]
        self.query_one("#tabs", Static).update(Content("").join(tabs))
