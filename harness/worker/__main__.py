"""`python -m harness.worker FRAMES_FD COMMANDS_FD INPUTS`: one execution of an attack, from its inputs to its end."""

import sys
import traceback
from pathlib import Path

from harness.core.errors import HarnessError, shortened
from harness.core.job import read_job
from harness.worker.channel import Channel
from harness.worker.context import RunContext
from harness.worker.plugin import load_attack


def main() -> None:
    """Run the attack; its end, good or bad, is the last frame."""
    channel = Channel(int(sys.argv[1]), int(sys.argv[2]))
    folder = Path(sys.argv[3])
    job = read_job(folder)
    try:
        attack_type = load_attack(job.attack_file)
        context = RunContext(job, folder, channel)
        attack = attack_type(attack_type.params_type().model_validate(job.params))
        channel.send("event", name="started")
        for guesses in attack.run(context):
            context.emit(guesses)
        channel.send("end", cut_short=context.was_cut_short)
    except BaseException as error:
        # Whatever a plugin raises ends here, SystemExit too: the run's last word must be a sentence, not a silence.
        traceback.print_exc()
        channel.send("failed", sentence=_sentence(error, job.attack_file))
    channel.drain()


def _sentence(error: BaseException, attack_file: Path) -> str:
    """What went wrong, for the run's record, with the line of the attack's own file where there is one."""
    if isinstance(error, HarnessError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the attack asked to exit with {error.code!r} before its end."
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(attack_file)]
    where = f" at {attack_file.name}:{lines[-1]}" if lines else ""
    text = shortened(str(error), 200)
    return f"the attack raised {type(error).__name__}{where}{': ' + text if text else ''}."


if __name__ == "__main__":
    main()
