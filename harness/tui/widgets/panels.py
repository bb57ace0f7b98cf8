"""Panels with titles: all of them where there is room, otherwise one at a time; `z` lets one fill the screen."""

from itertools import takewhile
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.events import DescendantFocus
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from harness.core.text import sanitize

_NO_LINKS = Content("")


class Panel(Vertical):
    """A titled part of the screen. `show_empty` collapses it to one line.

    A collapsed part keeps the focus: the line covers its widgets, but does not hide them.
    """

    DEFAULT_CSS = """
    Panel {
        height: 1fr; width: 1fr; border: round $foreground 50%; border-title-color: $foreground;
        border-subtitle-color: $text-muted;
        & > .why-empty {
            display: none; height: 1; color: $text-muted; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
        }
        &:focus-within { border: round $primary; border-title-style: bold; }
        &.-empty { height: 1; border: none !important; overflow: hidden; }
        &.-empty > .why-empty { display: block; dock: top; }
    }
    """

    def __init__(self, *children: Widget, id: str, label: str, title: str = "", classes: str = "") -> None:
        """`label`: its short name in the line of tabs."""
        super().__init__(*children, Static("", classes="why-empty"), id=id, classes=f"panel {classes}")
        self.label = label
        self.set_title(title or label)

    def set_title(self, title: str, links: Content = _NO_LINKS) -> None:
        """Show `title` in the border, followed by links whose actions are those of the panel."""
        self.border_title = Content(sanitize(title)) + links

    def show_empty(self, reason: str) -> None:
        """Collapse the panel to one line that says why it is empty; with an empty `reason`, show it again."""
        self.set_class(bool(reason), "-empty")
        if reason:
            self.query_one(".why-empty", Static).update(Content(sanitize(f"{self.label}: {reason}")))


def panel_of(widget: Widget) -> Panel | None:
    """Return the panel that contains the widget; None if there is none."""
    return next((node for node in widget.ancestors if isinstance(node, Panel)), None)


class PanelTabs(Static):
    """The line of tabs of a group of panels. A click runs its action on the line itself."""

    def action_go_to(self, number: int) -> None:
        """Show a panel, counted from 1."""
        group = self.parent
        assert isinstance(group, PanelGroup)
        group.action_panel_number(number)


class PanelGroup(Container):
    """Shows all its panels if it is large enough, else the chosen one below a line of tabs.

    A subclass composes the panels, inside any containers, and arranges them in its style sheet.
    """

    DEFAULT_CSS = """
    PanelGroup {
        height: 1fr;
        & > .tabs { height: 1; padding: 0 1; color: $text-muted; link-style: none; link-color: $text-muted; }
        &.-all > .tabs { display: none; }
        &.-one .-hidden, .-absent { display: none; }
        &.-one Panel, &.-one Panel:focus-within { width: 1fr; height: 1fr; }
        &.-low Panel, &.-low Panel:focus-within { border: none; }
        &.-low > .tabs, &.-single > .tabs { display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # The list of keys has them among the movements.
        Binding("tab", "next_panel(1)", "Next panel", show=False),
        Binding("shift+tab", "next_panel(-1)", "Previous panel", show=False),
        Binding("z", "zoom", "Zoom", show=False, tooltip="Let the panel fill the screen, or show all again"),
    ]
    ROOMY: ClassVar[tuple[int, int]] = (110, 26)
    """The width and height from which on all panels are shown."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._current_id = ""
        self._is_roomy = False
        self._is_zoomed = False

    def compose(self) -> ComposeResult:
        yield PanelTabs("", classes="tabs")
        yield from self.compose_panels()

    def compose_panels(self) -> ComposeResult:
        """Yield the panels; a subclass overrides it."""
        yield from ()

    @property
    def panels(self) -> list[Panel]:
        """All panels that are not absent, in their order."""
        return [panel for panel in self.query(Panel) if not panel.has_class("-absent")]

    def on_mount(self) -> None:
        self._current_id = self._current_id or self.panels[0].id or ""
        self._arrange()

    def watch_virtual_size(self) -> None:
        """Arrange the panels for the new size. Textual loses the first Resize if the focus changes before it."""
        self.call_later(self._arrange)

    def go_to(self, id: str) -> None:
        """Show the panel and focus its first focusable widget."""
        self._current_id = id
        self._arrange()
        panel = self.query_one(f"#{id}", Panel)
        target = next((part for part in panel.query("*") if part.focusable and _is_displayed(part, panel)), None)
        if target is not None:
            self.screen.set_focus(target)

    def set_absent(self, id: str, *, is_absent: bool) -> None:
        """Remove a panel that has nothing to show, or add it again."""
        panel = self.query_one(f"#{id}", Panel)
        if panel.has_class("-absent") is not is_absent:
            panel.set_class(is_absent, "-absent")
            if is_absent and self._current_id == id:
                self.go_to(self.panels[0].id or "")
            self._arrange()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to let a panel fill the screen if there is another one."""
        return len(self.panels) > 1 if action == "zoom" else super().check_action(action, parameters)

    def action_next_panel(self, step: int) -> None:
        ids = [panel.id or "" for panel in self.panels if panel.id == self._current_id or self._can_go_to(panel)]
        if self._current_id in ids:
            self.go_to(ids[(ids.index(self._current_id) + step) % len(ids)])

    def _can_go_to(self, panel: Panel) -> bool:
        return not self._shows_all or (panel.display and not panel.has_class("-empty"))

    def action_zoom(self) -> None:
        self._is_zoomed = not self._is_zoomed
        self._arrange()

    def action_panel_number(self, number: int) -> None:
        if number <= len(self.panels):
            self.go_to(self.panels[number - 1].id or "")

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Remember the panel that has the focus."""
        panel = panel_of(event.widget)
        if panel is not None and panel.id != self._current_id:
            self._current_id = panel.id or ""
            self._arrange()

    @property
    def _shows_all(self) -> bool:
        return self._is_roomy and not self._is_zoomed

    def _arrange(self) -> None:
        self._is_roomy = self.size.width >= self.ROOMY[0] and self.size.height >= self.ROOMY[1]
        panels = self.panels
        classes: dict[DOMNode, dict[str, bool]] = {
            self: {
                "-low": self.size.height < 12,
                "-single": len(panels) == 1,
                "-all": self._shows_all,
                "-one": not self._shows_all,
            }
        }
        classes |= {panel: {"-hidden": panel.id != self._current_id} for panel in panels}
        for container in self.query("Vertical, Horizontal"):
            if not isinstance(container, Panel) and (inside := list(container.query(Panel))):
                classes[container] = {"-hidden": all(panel.id != self._current_id for panel in inside)}
        # An update of a node's styles updates those of all nodes in it, so that it is done once.
        changed = [node for node in classes if any(node.has_class(name) != on for name, on in classes[node].items())]
        for node in changed:
            node.update_classes(classes[node], update=False)
        for node in [self] if self in changed else changed:
            node.update_node_styles()
        tabs = []
        for number, panel in enumerate(panels, 1):
            name = f"[{panel.label}]" if panel.id == self._current_id else f" {panel.label} "
            tabs += [Content.styled(name, Style.from_meta({"@click": f"go_to({number})"})), Content(" ")]
        self.query_one(".tabs", Static).update(Content("").join(tabs), layout=False)


class PanelScreen(Screen[None]):
    """A screen with one PanelGroup."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "Back", tooltip="Close this screen")]

    def action_leave(self) -> None:
        self.app.clear_notifications()
        self.dismiss(None)

    def show_panel(self, id: str) -> None:
        """Show the panel in a small terminal; elsewhere the focus stays where it is."""
        group = self.query_one(PanelGroup)
        if not group.has_class("-all"):
            group.go_to(id)


def _is_displayed(part: DOMNode, panel: Panel) -> bool:
    """Return True if neither the part nor anything between it and the panel is hidden.

    The panel itself may be shown only by the next update of the styles.
    """
    return all(node.display for node in takewhile(lambda node: node is not panel, part.ancestors_with_self))
