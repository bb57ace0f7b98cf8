"""The key that opens the form with the values of a run."""

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.core.files import file_sha256
from harness.core.options import hints_of
from harness.core.run_request import RunRequest
from harness.runs.folder import RunFolder
from harness.tui.screens.new_run import NewRunScreen
from tests.functional.machine import PLUGINS
from tests.records import recorded_run
from tests.tui.forms import ATTACK, written
from tests.tui.piloting import notifications, on_page, open_app, press, text_of, until
from tests.tui.tables import table_of

pytestmark = pytest.mark.usefixtures("place")


ID = "abcd-some"


# Together they set every option of a run that the form asks for, and the settings of the attack.
REQUESTS: dict[str, dict[str, Any]] = {
    "devices": {
        "target": "sshleifer/tiny-gpt2",
        "revision": "v1.0",
        "reference": "gpt2",
        "base": "gpt2-medium",
        "budget": "90m",
        "seed": 7,
        "settings": ("width=3", "note=a b, $c 'd'"),
        "limit": 5,
        "guesses_per_example": 0,
        "share_device": True,
        "devices": "cpu:2",
        "split_target": True,
        "threads": 2,
        "dtype": "bfloat16",
        "group": "night",
    },
    "device": {"device": "cpu", "round": "demo:fold1of5", "group": "night"},
    "cluster": {"shards": 3, "ray": "10.0.0.1:6379", "group": "night"},
    "preset": {"preset": True, "group": "night"},
}
PARAMS = """
from harness import Attack, Field, Params
class P(Params):
    width: int = 2
    note: str = ""
"""


def run_with_every_option(place: Path, options: dict[str, Any]) -> RunRequest:
    """Record a run of an attack with parameters, started with these options. Return its request."""
    (folder := place / "own").mkdir()
    source = written(folder, PARAMS, ATTACK.replace("uses_target = False", ""))
    run = recorded_run(place, id_=ID).finish([])
    run.code.mkdir()
    shutil.copy(source, run.code)
    spec = run.attack_spec()
    request = RunRequest(attack="some", attacks=folder, **({"round": spec.request.round} | options))
    attack = spec.attack.model_copy(update={"name": "some", "sha256": file_sha256(source)})
    params = {"width": int(request.params.get("width", 2)), "note": request.params.get("note", "")}
    changes = {"request": request, "attack": attack, "params": params}
    run.spec_file.write_text(spec.model_copy(update=changes).model_dump_json())
    return request


def run_with_own_attacks(place: Path) -> Path:
    """Record a run of an attack in a directory of its own, with options of every kind. Return the source."""
    source = place / "own" / "some.py"
    source.parent.mkdir()
    shutil.copy(PLUGINS / "draws.py", source)
    # A run without an end and a supervisor would be lost after some seconds, and the TUI would announce it.
    run = recorded_run(place, id_=ID).finish([])
    run.code.mkdir()
    shutil.copy(source, run.code)
    spec = run.attack_spec()
    options = {"limit": 5, "devices": "cpu:2", "group": "night", "guesses_per_example": 0}
    request = RunRequest(attack="draws", round=spec.request.round, attacks=source.parent, **options)  # type: ignore[arg-type]
    attack = spec.attack.model_copy(update={"name": "draws", "sha256": file_sha256(source)})
    run.spec_file.write_text(spec.model_copy(update={"request": request, "attack": attack}).model_dump_json())
    return source


async def duplicate(*, attacks_folder: Path | None = None) -> tuple[str, str]:
    """Duplicate the only run. Return the command of the form, and the notifications."""
    async with open_app(size=(200, 50), attacks_folder=attacks_folder) as pilot:
        # The form may take longer than a notification stays.
        pilot.app.NOTIFICATION_TIMEOUT = 600  # type: ignore[misc]
        await on_page(pilot, 1)
        await until(pilot, lambda: table_of(pilot, "runs").row_count == 1)
        await press(pilot, "d", then=NewRunScreen)
        await until(pilot, lambda: "--group night" in " ".join(text_of(pilot, "#command Static").split()))
        return " ".join(text_of(pilot, "#command Static").split()), notifications(pilot)


async def test_a_duplicate_is_of_the_attack_and_the_options_of_the_run(place: Path) -> None:
    source = run_with_own_attacks(place)
    command, said = await duplicate()
    for words in ("run draws", "--limit 5", "--devices cpu:2", "--guesses-per-example 0", f"--attacks {source.parent}"):
        assert words in command
    assert said == ""


async def test_an_attack_whose_directory_is_gone_is_the_source_that_ran(place: Path) -> None:
    shutil.rmtree(run_with_own_attacks(place).parent)
    command, said = await duplicate()
    assert f"--attacks {RunFolder.of(ID).code}" in command
    assert said == f"attack draws was not found, so the source that {ID} ran is used."


async def test_the_directory_of_the_tui_does_not_replace_the_attack(place: Path) -> None:
    source = run_with_own_attacks(place)
    (another := place / "another").mkdir()
    (another / "draws.py").write_text(source.read_text() + "# another\n")
    command, said = await duplicate(attacks_folder=another)
    assert f"--attacks {source.parent}" in command and said == ""


async def test_a_changed_source_is_named(place: Path) -> None:
    source = run_with_own_attacks(place)
    source.write_text(source.read_text() + "# changed\n")
    command, said = await duplicate()
    assert f"--attacks {source.parent}" in command
    assert said.startswith(f"{source} differs from the source that {ID} ran")


def options_in(words: list[str]) -> list[str]:
    """Return what the words of a command line set, sorted, such as `--limit=5` for two words."""
    options: list[str] = []
    for word in words:
        if word.startswith("--"):
            options.append(word)
        else:
            options[-1] += f"={word}"
    return sorted(options)


def test_the_requests_set_every_option_of_the_form() -> None:
    every = {name for name, field in RunRequest.model_fields.items() if not hints_of(field)["is_hidden"]}
    assert {name for options in REQUESTS.values() for name in options} == every - {"attacks"}


async def test_a_parameter_without_a_field_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_with_every_option(place, REQUESTS["device"])
    folder = RunFolder.of(ID)
    spec = folder.attack_spec()
    changed = {"params": {"width": 2, "note": "", "old": 5}, "changed": ("old",)}
    folder.spec_file.write_text(spec.model_copy(update=changed).model_dump_json())
    async with open_app(size=(200, 50)) as pilot:
        await on_page(pilot, 1)
        await until(pilot, lambda: table_of(pilot, "runs").row_count == 1)
        await press(pilot, "d", then=NewRunScreen)
        await until(pilot, lambda: f"Values: of run {ID} without old" in text_of(pilot, "#state"))


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_duplicate_has_every_option_of_the_run(name: str, place: Path) -> None:
    request = run_with_every_option(place, REQUESTS[name])
    command, said = await duplicate()
    words = shlex.split(command)
    assert words[:3] == ["harness", "run", "some"] and said == ""
    # The form shows the values that the preset set.
    assert options_in(words[3:]) == options_in(request.changed(preset=False).command_words())
