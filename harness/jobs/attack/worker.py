"""An attack in the worker process: the plugin is imported and run."""

import traceback
from pathlib import Path

from harness.core.protocol import read_request
from harness.jobs.attack.context import AttackContext
from harness.jobs.attack.request import AttackRequest
from harness.worker.channel import Channel
from harness.worker.plugin import error_message, load_attack


def run(folder: Path, channel: Channel) -> bool:
    """Run the attack whose request is in `folder`; return True if it was asked to finish before its end."""
    request = read_request(folder, AttackRequest)
    attack_type = load_attack(request.attack_file)
    context = AttackContext(request, folder, channel)
    attack = attack_type(attack_type.params_type().model_validate(request.params))
    channel.send("event", name="started")
    for guesses in attack.run(context):
        context.emit(guesses)
    return context.was_cut_short


def failure_sentence(error: BaseException, folder: Path) -> str:
    """Return what went wrong, with the line of the attack's own file if the traceback has one."""
    if isinstance(error, SystemExit):
        return f"the attack asked to exit with {error.code!r:.100} before its end."
    file = read_request(folder, AttackRequest).attack_file
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    where = f" at {file.name}:{lines[-1]}" if lines else ""
    message = error_message(error)
    return f"the attack raised {type(error).__name__}{where}{': ' + message if message else ''}."
