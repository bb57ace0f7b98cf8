"""An option of a run is declared once, and every way to start a run offers it and keeps its value."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

from harness.analysis.comparison import _settings
from harness.cli.typer_classes import CommandLine
from harness.core.errors import UsageError
from harness.core.options import Options, hints_of, option
from harness.core.run_request import RunRequest
from harness.notebook.starting import describe_options, options_of
from harness.notebook.starting import run as run_in_notebook
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import fetch_schema
from harness.runs.specs import AttackSpec
from harness.submit.code_spec import code_spec_from_run
from harness.sweeps.file import NOT_OF_EACH_RUN, file_with_options
from harness.tui.form import option_fields
from harness.tui.screens.new_run import form_for, recorded_values
from tests.records import recorded_run

EXAMPLES: dict[str, Any] = {
    "attack": "baseline",
    "round": "satml-dev:fold1of5",
    "target": "demo-tiny",
    "base": "demo",
    "revision": "step1000",
    "reference": "demo-reference",
    "budget": "90m",
    "settings": ("trials=3", "loss_slice=a=b"),
    "preset": True,
    "attacks": Path("/some/attacks"),
    "limit": 7,
    "guesses_per_example": 0,
    "seed": 3,
    "share_device": True,
    "group": "night",
    "device": "cuda:1",
    "dtype": "bfloat16",
    "threads": 2,
    "devices": "cpu:2",
    "split_target": True,
    "shards": 4,
    "ray": "auto",
}
"""A value of each option that is not its default."""
_NEEDS = {"devices": ("split_target",), "shards": ("ray",), "ray": ("shards",), "split_target": ("devices",)}


class Wider(RunRequest):
    """The options of a run and one more."""

    patience: int | None = option(None, ge=1, unset="forever", description="Something new.")


def asked(name: str) -> RunRequest:
    """Return a request with one option set, and what this one needs."""
    names = (name, *_NEEDS.get(name, ()))
    return RunRequest.checked(**{"round": "demo", "attack": "baseline"} | {name: EXAMPLES[name] for name in names})


def parsed(words: list[str], request: type[RunRequest] = RunRequest) -> RunRequest:
    """Return what the command line reads."""
    app, read = CommandLine(), []

    def command(*, request: Any) -> None:
        read.append(request)

    command.__annotations__["request"] = request
    app.command()(command)
    app(words, standalone_mode=False)
    (result,) = read
    assert isinstance(result, RunRequest)
    return result


@pytest.fixture
def attack() -> AttackFile:
    return attack_named("baseline", None)


def test_every_option_has_an_example() -> None:
    assert EXAMPLES.keys() == RunRequest.model_fields.keys()
    for name, field in RunRequest.model_fields.items():
        assert field.default_factory or EXAMPLES[name] != field.default


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_record_and_the_command_line_keep_an_option(name: str) -> None:
    request = asked(name)
    assert RunRequest.model_validate_json(request.model_dump_json()) == request
    assert parsed(request.command_words()).changed(attack="baseline") == request.changed(attack="baseline")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_run_like_another_has_its_options_and_those_that_are_given(name: str) -> None:
    recorded = asked(name)
    assert parsed([]).like(recorded) == recorded
    assert parsed(["--seed", "11"]).like(recorded) == recorded.changed(seed=11)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_duplicate_in_the_tui_has_the_options_of_the_run(name: str, attack: AttackFile, home: Path) -> None:
    """The form has a field for each parameter, so it has no settings and no preset of its own."""
    spec: AttackSpec = recorded_run(home).folder.attack_spec().model_copy(update={"request": asked(name)})
    form = form_for(attack, fetch_schema(attack.path, digest=attack.sha256), attacks_folder=spec.request.attacks)
    command, shown, *words = form.command_line(form.defaults | recorded_values(spec, form))
    assert (command, shown) == ("run", "baseline")
    again = parsed(words).changed(attack="baseline")
    assert again == spec.request.without(lambda name: name in ("settings", "preset"))


def test_parameters_are_shown_as_a_user_types_them(attack: AttackFile, home: Path) -> None:
    params = {"trials": 3, "loss_slice": "a b"}
    spec = recorded_run(home).folder.attack_spec().model_copy(update={"params": params})
    form = form_for(attack, fetch_schema(attack.path, digest=attack.sha256), attacks_folder=None)
    texts = recorded_values(spec, form)
    assert (texts["trials"], texts["loss_slice"]) == ("3", "a b")


def test_a_parameter_that_was_none_stays_none(home: Path) -> None:
    source = home / "capped.py"
    source.write_text(
        "from harness import Attack, Params\n\n\nclass CappedParams(Params):\n    cap: float | None = 0.5\n"
        "    size: int = 3\n\n\nclass Capped(Attack[CappedParams]):\n    name = 'capped'\n"
        "\n    def run(self, context): return ()\n"
    )
    attack = attack_named("capped", home)
    form = form_for(attack, fetch_schema(source, digest=attack.sha256), attacks_folder=home)
    spec = recorded_run(home).folder.attack_spec().model_copy(update={"params": {"cap": None, "size": 3}})
    words = form.command_line(form.defaults | recorded_values(spec, form))
    assert "cap=none" in words and not any(word.startswith("size=") for word in words)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - set(NOT_OF_EACH_RUN)))
def test_a_sweep_file_has_the_option(name: str) -> None:
    names = [name, *_NEEDS.get(name, ())]
    value = {name: EXAMPLES[name] for name in names if name not in NOT_OF_EACH_RUN}
    file = file_with_options(RunRequest).model_validate({"name": "x", "attacks": ["baseline"], **value})
    assert file.options.keys() == value.keys()
    assert RunRequest.checked(round="demo", **file.options) == RunRequest(round="demo", **value)


def test_a_notebook_has_every_option() -> None:
    names = inspect.signature(run_in_notebook).parameters.keys()
    assert names - {"params", "wait", "progress"} == RunRequest.model_fields.keys() - {"settings"}
    for name, field in options_of(RunRequest).items():
        assert f"    {name}: {field.description}" in (run_in_notebook.__doc__ or "")


def test_a_new_option_is_in_every_projection(attack: AttackFile) -> None:
    assert parsed(["--patience", "3"], Wider).patience == 3  # type: ignore[attr-defined]
    assert Wider(round="demo", patience=3).command_words()[-1] == "--patience=3"
    assert parsed([], Wider).like(Wider(round="demo", patience=3)).patience == 3  # type: ignore[attr-defined]
    (field,) = [field for field in option_fields(Wider, uses_target=False) if field.name == "patience"]
    assert (field.key, field.placeholder, field.bounds) == ("--patience", "forever", ("at least 1",))
    assert file_with_options(Wider).model_fields.keys() >= {"patience", "attacks"}

    def start(attack: str, **options: Any) -> None:
        """Start.

        {options}
        """

    describe_options(start, options_of(Wider))
    assert "patience" in inspect.signature(start).parameters
    assert "patience: Something new. The default is forever." in (start.__doc__ or "")


def test_a_new_option_is_in_the_code_of_a_bundle_and_in_comparisons(home: Path) -> None:
    spec = recorded_run(home).folder.attack_spec()
    patient = spec.model_copy(update={"request": Wider(round="demo", patience=3, limit=2, ray="auto", shards=2)})
    assert code_spec_from_run(patient, trains=False).options == {"patience": 3}
    reported = {"target": None, "reference": None}
    settings, wider = (_settings(run, reported) for run in (spec, patient))
    assert dict(wider.items() - settings.items()) == {"patience": 3, "limit": 2, "ray": "auto", "shards": 2}


def test_values_in_one_text_are_one_word_of_a_command() -> None:
    class Listed(RunRequest):
        stops: tuple[int, ...] = option((), separator=",", description="Numbers.")

    words = Listed(round="demo", stops=(1, 2)).command_words()
    assert words[-1] == "--stops=1,2" and parsed(words, Listed) == Listed(round="demo", stops=(1, 2))


def test_the_path_of_any_option_is_recorded_for_every_directory() -> None:
    class Worded(RunRequest):
        words: Path | None = option(None, description="A file.")

    request = Worded(round="demo", words=Path("words.txt"), attacks=Path("/mine")).with_absolute_paths()
    assert request == Worded(round="demo", words=Path.cwd() / "words.txt", attacks=Path("/mine"))


@pytest.mark.parametrize(("type_", "default"), [(bool, True), (bool | None, None)])
def test_a_switch_that_the_command_line_cannot_turn_off_is_no_option(type_: Any, default: bool | None) -> None:
    with pytest.raises(TypeError, match="the default of a switch is False"):
        create_model("Switched", __base__=Options, cached=(type_, option(default, description="Something.")))


def test_an_attack_without_a_target_has_no_option_that_needs_one() -> None:
    request = RunRequest(round="demo", limit=3, **{name: EXAMPLES[name] for name in ("target", "dtype", "threads")})
    assert request.without_target() == RunRequest(round="demo", limit=3)
    assert request.differing(request.without_target()) == ["--dtype", "--threads", "--target"]
    names = {field.name.replace("-", "_") for field in option_fields(RunRequest, uses_target=False)}
    needing = {name for name, field in RunRequest.model_fields.items() if hints_of(field)["needs_target"]}
    assert not names & needing and {"seed", "limit", "devices"} <= names


@pytest.mark.parametrize(
    ("recorded", "typed", "left"),
    [
        ({"devices": "0,1", "split_target": True}, {"device": "cpu"}, {"device": "cpu"}),
        ({"devices": "0,1", "split_target": True}, {"devices": "2,3"}, {"devices": "2,3", "split_target": True}),
        ({"shards": 2, "ray": "auto"}, {"devices": "cpu:2"}, {"devices": "cpu:2"}),
        ({"device": "cuda:1"}, {"shards": 2, "ray": "auto"}, {"shards": 2, "ray": "auto"}),
    ],
)
def test_a_place_replaces_the_recorded_one(recorded: Any, typed: Any, left: Any) -> None:
    request = RunRequest(round="demo", **typed).like(RunRequest(round="demo", **recorded))
    assert request == RunRequest(round="demo", **left)


def test_parameters_are_merged_and_those_of_another_attack_are_left_out() -> None:
    recorded = RunRequest(round="demo", attack="baseline", settings=("trials=3", "top_k=5"), preset=True)
    request = RunRequest(round="demo", settings=("trials=4",)).like(recorded)
    assert (request.params, request.preset) == ({"trials": "4", "top_k": "5"}, True)
    other = RunRequest(round="demo", attack="greedy", settings=("n=1",)).like(recorded)
    assert (other.params, other.preset, other.attack) == ({"n": "1"}, False, "greedy")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"settings": ("trials",)}, "--set: expected NAME=VALUE, got 'trials'"),
        ({"settings": ("a=1", "a=2")}, "--set: a is set twice"),
        ({"devices": "two"}, "--devices: unknown devices 'two'. Use GPUs such as 0,1, all, or cpu:N"),
        ({"devices": "1,01"}, "--devices: 1,01 names a GPU twice"),
        ({"devices": "0", "device": "cpu"}, "--devices: cannot be used together with --device"),
        ({"shards": 2}, "--shards: give --shards and --ray together"),
        ({"ray": "auto"}, "--shards: give --shards and --ray together"),
        ({"shards": 2, "ray": "auto", "devices": "0"}, "--shards: cannot be used together with --devices"),
        ({"shards": 2, "ray": "auto", "split_target": True}, "--shards: cannot be used together with --split-target"),
        ({"shards": 2, "ray": "local"}, "--ray: name a cluster"),
        ({"budget": "soon"}, "--budget: 'soon' is not a duration"),
        ({"dtype": "int8"}, "--dtype: "),
        ({"threads": 5000}, "--threads: must be at most 4096"),
        ({"guesses_per_example": -1}, "--guesses-per-example: must be at least 0"),
    ],
)
def test_a_value_that_does_not_fit_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        RunRequest.checked(round="demo", **fields)
    assert str(error.value).startswith(message)
