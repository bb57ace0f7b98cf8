"""Every screen withstands the mouse and the keys that move the focus, whatever the state of the run that it shows."""

import asyncio
import importlib
import inspect
import os
import pkgutil
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.dom import DOMNode
from textual.events import MouseDown, MouseMove, MouseUp
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Button, Input, Select, Switch

import harness.tui
from harness.core.paths import runs_home
from harness.plugins.discovery import find_attacks
from harness.runs import subcommand
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.summary import run_status
from harness.tui.app import HarnessApp
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import ChoiceDialog, ConfirmDialog, NameDialog, RoundDialog, ThemeDialog
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.keys import KeysScreen
from harness.tui.screens.main import MainScreen
from harness.tui.screens.new_run import NewAuditScreen, NewRunScreen, NewTuningScreen
from harness.tui.screens.package import PackageScreen
from harness.tui.screens.run import RunScreen
from harness.tui.screens.verify import VerifyScreen
from harness.tui.widgets.bars import TABS, KeyFooter
from tests.functional.machine import PLUGINS
from tests.records import EXAMPLES, RecordedJob, recorded_audit, recorded_run
from tests.tools.tiers import first_is_fast
from tests.tui.piloting import on_page, open_app, screen_text, until

SIZES = ((80, 24), (120, 35))
WITHOUT_GUESSES = (Status.QUEUED, Status.CRASHED)


@dataclass
class Shown:
    """The records that the screens are opened with."""

    app: HarnessApp
    run: RunFolder
    other: RunFolder
    audit: RunFolder

    def attack(self, asks: type[NewRunScreen] = NewRunScreen) -> NewRunScreen:
        attack = next(one for one in find_attacks(PLUGINS) if one.name == "draws")
        return asks(attack, attacks_folder=PLUGINS, round_name="demo")


PARTS = 5
"""A key takes up to a second, and there are hundreds."""
# The main screen is always there, and its pages are visited one after the other.
SCREENS: dict[type[Screen[Any]], Callable[[Shown], list[Screen[Any]]]] = {
    MainScreen: lambda shown: [],
    RunScreen: lambda shown: [RunScreen(shown.run)],
    AuditScreen: lambda shown: [AuditScreen(shown.audit)],
    CompareScreen: lambda shown: [CompareScreen([shown.run, shown.other])],
    ExampleScreen: lambda shown: [ExampleScreen([shown.run, shown.other], range(EXAMPLES), 3)],
    PackageScreen: lambda shown: [PackageScreen(shown.run)],
    NewRunScreen: lambda shown: [shown.attack()],
    NewTuningScreen: lambda shown: [shown.attack(NewTuningScreen)],
    VerifyScreen: lambda shown: [VerifyScreen(Path("team.zip"), round_name="demo", seconds=None)],
    NewAuditScreen: lambda shown: [NewAuditScreen("sequence", round_name="demo")],
    ConfirmDialog: lambda shown: [ConfirmDialog("Stop it?"), ConfirmDialog("Delete it?", deletes=True)],
    NameDialog: lambda shown: [NameDialog("A note:", "first")],
    ChoiceDialog: lambda shown: [ChoiceDialog("One", {"a": "the first", "b": "the second"})],
    RoundDialog: lambda shown: [RoundDialog("demo")],
    ThemeDialog: lambda shown: [ThemeDialog("Theme", {"textual-dark": "", "textual-light": ""}, "textual-dark")],
    KeysScreen: lambda shown: [KeysScreen(shown.app.screen, is_palette=palette) for palette in (False, True)],
}

ABOUT_A_RUN = (RunScreen, AuditScreen, CompareScreen, ExampleScreen, PackageScreen)
"""The screens that depend on the state of a run, besides the pages of runs and audits."""


def classes_of_the_screen() -> Iterator[type[Any]]:
    """Yield every class that harness.tui defines."""
    for module in pkgutil.walk_packages(harness.tui.__path__, "harness.tui."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and value.__module__ == module.name:
                yield value


def test_every_screen_has_a_case() -> None:
    screens = {one for one in classes_of_the_screen() if issubclass(one, Screen)}
    bases = {base for one in screens for base in one.__mro__[1:]}
    assert screens - bases <= set(SCREENS) <= screens


@pytest.mark.parametrize(
    "node", [one for one in classes_of_the_screen() if issubclass(one, DOMNode)], ids=lambda one: one.__name__
)
def test_no_base_of_a_widget_loses_its_styles_and_component_classes(node: type[DOMNode]) -> None:
    bases = [base for base in node.__mro__ if issubclass(base, DOMNode)]
    components = {name for base in bases for name in base.__dict__.get("COMPONENT_CLASSES", ())}
    assert components == node._get_component_classes()
    assert {base for base in bases if base.__dict__.get("DEFAULT_CSS")} <= set(node._css_bases(node))


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the commands that the screen started; none of them does anything."""
    (tmp_path / "stub.py").write_text(
        "import sys\nopen(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + '\\n')\nexit(1)\n"
    )
    monkeypatch.setattr(subcommand, "PROGRAM", (sys.executable, str(tmp_path / "stub.py"), str(tmp_path / "commands")))
    return tmp_path / "commands"


def recorded_in(state: Status, job: RecordedJob) -> RecordedJob:
    """Bring a run or an audit into a state."""
    job.supervised_by(os.getpid())
    job.event("phase", phase=state.value, reason="for a reason")
    return job


# To the mouse, the other states look like one of these: at work or over, with guesses or without.
@pytest.fixture(params=first_is_fast([Status.RUNNING, *WITHOUT_GUESSES], fast=1))
def state(request: pytest.FixtureRequest) -> Status:
    return Status(request.param)


@pytest.fixture
def records(place: Path, state: Status) -> Iterator[tuple[RunFolder, RunFolder, RunFolder]]:
    """A run and an audit in the state, and a finished run to compare with."""
    run, other, audit = recorded_run(place), recorded_run(place, id_="efgh-other"), recorded_audit(pid=None)
    for one in (run, other):
        if one is other or state not in WITHOUT_GUESSES:
            one.guess(one.batch("a"), [(example, example % 2 == 0, 1.0 - example) for example in range(EXAMPLES)])
    recorded_in(state, run)
    recorded_in(Status.FINISHED, other)
    recorded_in(state, audit)
    for one in (run, other):
        one.folder.code.mkdir()
        shutil.copy(PLUGINS / "draws.py", one.folder.code / "some.py")
    assert run_status(run.folder) is state and run_status(audit.folder) is state
    yield run.folder, other.folder, audit.folder
    for job in (run, other, audit):
        job.release()
        job.store.close()


@pytest.mark.slow
async def test_the_mouse_and_the_focus_harm_no_screen(
    records: tuple[RunFolder, RunFolder, RunFolder], state: Status, commands: Path
) -> None:
    before = {path: run_status(RunFolder(path)) for path in runs_home().iterdir()}
    async with open_app(size=SIZES[list(Status).index(state) % 2], attacks_folder=PLUGINS) as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        shown = Shown(app, *records)
        await until(pilot, lambda: app.main.query_one("#runs").display)
        is_complete = state is Status.RUNNING
        for number in range(1, len(TABS) + 1) if is_complete else (1, 3):
            await on_page(pilot, number)
            await handle(pilot)
        for kind, make in SCREENS.items():
            for screen in make(shown) if is_complete or kind in ABOUT_A_RUN else ():
                app.push_screen(screen)
                await until(pilot, lambda screen=screen: app.screen is screen and screen.region.area)
                await until(pilot, lambda: "reading …" not in screen_text(app))
                assert_keys_have_actions(app)
                for footer in screen.query(KeyFooter):
                    assert screen_text(app).splitlines()[footer.region.y].endswith(" Help "), kind
                await handle(pilot)
                await only(pilot, app.main)
    assert {path: run_status(RunFolder(path)) for path in runs_home().iterdir()} == before
    started = commands.read_text().splitlines() if commands.exists() else []
    shown = {f"show {job.id}" for job in records}
    assert {" ".join(line.split()[:2]) for line in started} <= {*shown, "data status"}


@pytest.mark.slow
@pytest.mark.parametrize("state", [Status.RUNNING], indirect=True)
@pytest.mark.parametrize("turns", [1, 10, 30, 100])
async def test_a_screen_can_be_closed_while_it_loads(
    turns: int, records: tuple[RunFolder, RunFolder, RunFolder], commands: Path
) -> None:
    async with open_app(size=(120, 35), attacks_folder=PLUGINS) as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        for make in SCREENS.values():
            for screen in make(Shown(app, *records)):
                app.push_screen(screen)
                await until(pilot, lambda screen=screen: app.screen is screen)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await only(pilot, app.main)


@pytest.mark.slow
@pytest.mark.parametrize("state", [Status.RUNNING], indirect=True)
@pytest.mark.parametrize("part", range(PARTS))
async def test_each_key_of_the_footer_and_of_the_help_does_something(
    part: int, records: tuple[RunFolder, RunFolder, RunFolder], commands: Path
) -> None:
    async with open_app(size=(160, 50), attacks_folder=PLUGINS) as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        shown = Shown(app, *records)
        await until(pilot, lambda: app.main.query_one("#runs").display)
        for number in range(1 + part, len(TABS) + 1, PARTS):

            async def go(number: int = number) -> None:
                await only(pilot, app.main)
                # Digits are typed into a filter that has the focus.
                await app.action_go_to_page(list(TABS)[number - 1])
                await pilot.pause()

            await go()
            await press_all(pilot, app.main, go, commands)
        for make in [*SCREENS.values()][part::PARTS]:
            for number in range(len(make(shown))):

                async def open_(make: Callable[[Shown], list[Screen[Any]]] = make, number: int = number) -> None:
                    await only(pilot, app.main)
                    screen = make(shown)[number]
                    app.push_screen(screen)
                    await until(pilot, lambda: app.screen is screen and screen.region.area)
                    await until(pilot, lambda: "reading …" not in screen_text(app))

                await open_()
                await press_all(pilot, app.screen, open_, commands)
                await only(pilot, app.main)


async def press_all(
    pilot: Pilot[None], screen: Screen[Any], again: Callable[[], Awaitable[object]], commands: Path
) -> None:
    """Press each key that the footer or the help shows, and assert that something is seen to happen.

    again: opens what the footer is of. commands: the file with those that were started.
    """
    listed = [active for active in screen.active_bindings.values() if active.binding.show or active.binding.tooltip]
    for binding in {active.binding.action: active.binding for active in listed if active.enabled}.values():
        if binding.action in ("app.quit", "quit"):
            continue
        await again()
        # The focus may be elsewhere now, and with it the keys.
        if binding.action not in {active.binding.action for active in pilot.app.screen.active_bindings.values()}:
            continue
        before = what_is_seen(pilot, commands)
        await pilot.press(binding.key)
        try:
            await until(pilot, lambda before=before: what_is_seen(pilot, commands) != before)
        except AssertionError:
            raise AssertionError(f"{binding.key} ({binding.action}) does nothing on {screen}") from None


def what_is_seen(pilot: Pilot[None], commands: Path) -> tuple[object, ...]:
    """Return the text on the screen, the screens, the focus, the notifications, the clipboard and the commands."""
    app = pilot.app
    notified = len(app._notified) if isinstance(app, HarnessApp) else 0
    started = commands.read_text() if commands.exists() else ""
    return screen_text(app), tuple(app.screen_stack), app.focused, notified, app.clipboard, started


async def handle(pilot: Pilot[None]) -> None:
    """Select text everywhere, then move the focus through all panels and press Enter."""
    screen, size = pilot.app.screen, pilot.app.size
    for number, row in enumerate(range(0, size.height - 1, 2)):
        start = (2, row) if number % 2 else (size.width // 2, row)
        if not is_button(screen, *start):
            drag(pilot, start, (min(start[0] + 10, size.width - 1), row + 1))
            if number % 3 == 0:
                # The second press makes it a double click.
                for _ in range(2):
                    drag(pilot, start, start)
                await only(pilot, screen)
                if screen not in pilot.app.screen_stack:
                    return
    await only(pilot, screen)
    if screen not in pilot.app.screen_stack:
        return
    for keys in (["tab"] * 4, ["shift+tab"] * 2, ["tab"]):
        for key in keys:
            await pilot.press(key)
            assert_focus_is_displayed(screen)
        if not isinstance(screen.focused, Button) or screen.focused.id == "no":
            await pilot.press("enter")
        await only(pilot, screen)
        if screen not in pilot.app.screen_stack:
            return


def drag(pilot: Pilot[None], start: tuple[int, int], end: tuple[int, int]) -> None:
    """Press the button of the mouse at `start`, and release it at `end`."""
    for kind, (x, y) in ((MouseDown, start), (MouseMove, end), (MouseUp, end)):
        options = {"delta_x": 0, "delta_y": 0, "button": 1, "shift": False, "meta": False, "ctrl": False}
        pilot.app.post_message(kind(None, x, y, **options, screen_x=x, screen_y=y))


def is_button(screen: Screen[Any], column: int, row: int) -> bool:
    """Return True if a click at this place is meant to do something."""
    widget, _ = screen.get_widget_at(column, row)
    return any(isinstance(one, Button | Switch | Select | Input | KeyFooter) for one in widget.ancestors_with_self)


def assert_keys_have_actions(app: HarnessApp) -> None:
    """Assert that each key of the help runs an action that exists."""
    for active in app.screen.active_bindings.values():
        owner, _, name = active.binding.action.partition("(")[0].rpartition(".")
        node = {"app": app, "screen": app.screen, "": active.node}[owner]
        assert hasattr(node, f"action_{name}") or hasattr(node, f"_action_{name}"), active.binding


def assert_focus_is_displayed(screen: Screen[Any]) -> None:
    focused = screen.focused
    if focused is not None:
        assert all(node.display for node in focused.ancestors_with_self if isinstance(node, DOMNode)), focused


async def only(pilot: Pilot[None], screen: Screen[Any]) -> None:
    """Close the screens that were opened above this one."""
    await pilot.pause()
    while screen in pilot.app.screen_stack and pilot.app.screen is not screen:
        top = pilot.app.screen
        top.dismiss(None)
        await until(pilot, lambda top=top: top not in pilot.app.screen_stack)
