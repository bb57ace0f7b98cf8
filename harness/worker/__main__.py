"""`python -m harness.worker FRAMES_FD COMMANDS_FD INPUTS`: one execution of a job, from its inputs to its end."""

import contextlib
import os
import sys
import traceback
from pathlib import Path

from harness.audits.registry import audit_named
from harness.core.errors import HarnessError
from harness.jobs.attack.request import AttackRequest
from harness.jobs.audit.request import AuditRequest
from harness.core.requests import read_job
from harness.core.text import shorten
from harness.worker.audit_context import CutShort, WorkerAuditContext
from harness.worker.channel import Channel
from harness.worker.context import RunContext
from harness.worker.plugin import load_attack

_LONGEST_SENTENCE = 400


def main() -> None:
    """Run the job; its end, good or bad, is the last frame, and the process's end follows at once."""
    channel = Channel(int(sys.argv[1]), int(sys.argv[2]))
    folder = Path(sys.argv[3])
    job = read_job(folder)
    try:
        was_cut_short = (
            _audited(job, folder, channel) if isinstance(job, AuditRequest) else _attacked(job, folder, channel)
        )
        channel.send("end", cut_short=was_cut_short)
    except BaseException as error:
        # Whatever a plugin raises ends here, SystemExit too: the run's last word must be a sentence, not a silence.
        with contextlib.suppress(Exception):
            traceback.print_exc()
        channel.send("failed", sentence=_sentence(error, job))
    channel.drain()
    # A thread that the attack started and never ended must not keep the process.
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(0)


def _attacked(job: AttackRequest, folder: Path, channel: Channel) -> bool:
    """Run the attack's plugin; whether it was asked to finish before its end."""
    attack_type = load_attack(job.attack_file)
    context = RunContext(job, folder, channel)
    attack = attack_type(attack_type.params_type().model_validate(job.params))
    channel.send("event", name="started")
    for guesses in attack.run(context):
        context.emit(guesses)
    return context.was_cut_short


def _audited(job: AuditRequest, folder: Path, channel: Channel) -> bool:
    """Run the audit; whether it was asked to finish before its end."""
    audit_type = audit_named(job.audit)
    context = WorkerAuditContext(job, folder, channel)
    audit = audit_type(audit_type.params_type().model_validate(job.params))
    channel.send("event", name="started")
    try:
        audit.run(context)
    except CutShort:
        return True
    return False


def _sentence(error: BaseException, job: AttackRequest | AuditRequest) -> str:
    """What went wrong, for the run's record, with the line of the attack's own file where there is one."""
    if isinstance(error, HarnessError):
        return shorten(str(error), _LONGEST_SENTENCE)
    if isinstance(job, AuditRequest):
        return f"the audit raised {type(error).__name__}: {_message(error)}; its log says where."
    attack_file = job.attack_file
    if isinstance(error, SystemExit):
        return f"the attack asked to exit with {error.code!r:.100} before its end."
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(attack_file)]
    where = f" at {attack_file.name}:{lines[-1]}" if lines else ""
    text = _message(error)
    return f"the attack raised {type(error).__name__}{where}{': ' + text if text else ''}."


def _message(error: BaseException) -> str:
    """The error's own words on one line, whatever they are: its class may be a plugin's."""
    try:
        return shorten(" ".join(str(error).split()), 200).rstrip(".")
    except Exception as in_turn:
        return f"with a message that raised {type(in_turn).__name__}"


if __name__ == "__main__":
    main()
