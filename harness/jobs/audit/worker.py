"""An audit in the worker process."""

from pathlib import Path

from harness.audits.registry import audit_named
from harness.core.protocol import read_request
from harness.jobs.audit.context import CutShort, WorkerAuditContext
from harness.jobs.audit.request import AuditRequest
from harness.worker.channel import Channel
from harness.worker.plugin import error_message


def run(folder: Path, channel: Channel) -> bool:
    """Run the audit whose request is in `folder`; return True if it was asked to finish before its end."""
    request = read_request(folder, AuditRequest)
    audit_type = audit_named(request.audit)
    context = WorkerAuditContext(request, folder, channel)
    audit = audit_type(audit_type.params_type().model_validate(request.params))
    channel.send("event", name="started")
    try:
        audit.run(context)
    except CutShort:
        return True
    return False


def failure_sentence(error: BaseException, folder: Path) -> str:
    """Return what went wrong."""
    return f"the audit raised {type(error).__name__}: {error_message(error)}; its log has the traceback."
