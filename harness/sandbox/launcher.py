"""Confines itself as a plan says, then becomes the command. Run as a script on the standard library alone.

    python -I -S launcher.py PLAN_FD REPORT_FD COMMAND…

The plan is a marshalled dict (`plan.py` writes it; json takes longer to import than all of this to run). Down the
report's socket, if it is one, go the names of what was applied and the descriptor that refused system calls are heard
on. Whatever cannot be applied although the plan insists on it ends the process with a sentence on stderr.
"""

import _signal
import _socket
import ctypes
import errno
import marshal
import os
import resource
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_SECCOMP = 317 if os.uname().machine == "x86_64" else 277
_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446

_NEWNS, _NEWUSER, _NEWPID, _NEWNET, _NEWIPC = 0x00020000, 0x10000000, 0x20000000, 0x40000000, 0x08000000
_SPACES = {_NEWUSER: "user", _NEWPID: "pid", _NEWNS: "mount", _NEWIPC: "ipc", _NEWNET: "net"}
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_CAP_AMBIENT_CLEAR_ALL, _LAST_CAPABILITY, _CAPABILITY_VERSION_3 = 4, 63, 0x20080522

# Access rights (linux/landlock.h), with the version that brought each.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
_VERSION_1_RIGHTS = (1 << 13) - 1
_RIGHTS = {
    "read": _EXECUTE | _READ_FILE | _READ_DIR,
    "list": _READ_DIR,
    "device": _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV,
    # Everything but device nodes.
    "write": (_VERSION_1_RIGHTS | _REFER | _TRUNCATE) & ~(1 << 6) & ~(1 << 11),
}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_FILTER_WITH_LISTENER = 1 << 3


class _Unfit(Exception):
    """The machine does not do what the plan insists on."""


def main() -> None:
    """Apply the plan, report, and become the command."""
    plan_fd, report_fd, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with os.fdopen(plan_fd, "rb") as file:
        file.seek(0)
        plan = marshal.load(file)  # noqa: S302 (its own supervisor wrote it)
    try:
        applied = _separated(plan["namespaces"], plan["shared_memory"], network=plan["network"])
        _limit(plan["limits"])
        if plan["processes"] and ("user" in applied or plan["has_own_users"]) and os.getuid() != 0:
            # In a user namespace of its own it counts no other process of the user's; root it does not bind.
            _limit([(resource.RLIMIT_NPROC, plan["processes"])])
            applied.append("RLIMIT_NPROC")
        if plan["filters"]:
            _give_up_rights()
        if plan["rules"] is not None:
            rules = [*plan["rules"], *((place, "read") for place in ("/proc",) if "proc" in applied)]
            rules += [(place, "read") for place in plan["proc"] if "proc" not in applied]
            rules += [(place, "write") for place in ("/dev/shm",) if "shm" in applied]  # noqa: S108 (mounted above)
            applied.append(f"landlock {_landlocked(rules, network=plan['network'])}")
        listener = _filtered(plan["filters"]) if plan["filters"] else None
    except (_Unfit, OSError) as error:
        sys.stderr.write(f"the sandbox could not be made: {error}.\n")
        os._exit(126)
    if plan["filters"]:
        applied.append("seccomp" if listener is None else "seccomp with a listener")
    if report_fd >= 0:
        _report(report_fd, applied, listener)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        # Python ignores them, and what is ignored stays so in the command.
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 (that is the point)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be started ({error.strerror}).\n")
        os._exit(127)


def _limit(limits: list[tuple[int, int]]) -> None:
    for which, most in limits:
        hard = resource.getrlimit(which)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least))


def _separated(wanted: bool, shared_memory: int, *, network: bool) -> list[str]:
    """Go on in namespaces of its own, as many as the machine gives; which ones those are.

    In a process namespace this returns in its second process, while the first reaps what is orphaned and ends with it.
    """
    if not wanted:
        return []
    own, uid, gid = _NEWNS | _NEWPID | _NEWIPC | (0 if network else _NEWNET), os.getuid(), os.getgid()
    for flags in (own, own | _NEWUSER):
        if _LIBC.unshare(flags) == 0:
            break
    else:
        return []
    if flags & _NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    applied = [name for flag, name in _SPACES.items() if flags & flag]
    if (first := os.fork()) != 0:
        _wait_as_parent(first)
    _LIBC.prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    if _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE):
        guarded = _MS_NOSUID | _MS_NODEV
        if _mount(b"proc", b"/proc", b"proc", guarded | _MS_NOEXEC):
            applied.append("proc")
        if _mount(b"tmpfs", b"/dev/shm", b"tmpfs", guarded, f"size={shared_memory},mode=1777".encode()):
            applied.append("shm")
    if (second := os.fork()) != 0:
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        _wait_as_parent(second)
    os.setsid()
    return applied


def _mount(source: bytes, place: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> bool:
    return bool(_LIBC.mount(source, place, kind, ctypes.c_ulong(flags), options) == 0)


def _wait_as_parent(child: int) -> None:
    """Hold no descriptor, reap what comes, and end as `child` ends, a signal told as a shell tells it."""
    os.closerange(3, 1 << 16)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _give_up_rights() -> None:
    """No capability, and no way to one: not by a set-user-id program, nor by being root."""
    for capability in range(_LAST_CAPABILITY + 1):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _LIBC.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _Unfit("no_new_privs is refused")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _LIBC.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise _Unfit("capabilities cannot be dropped")


def _landlocked(rules: list[tuple[str, str]], *, network: bool) -> int:
    """Restrict files, and where the kernel knows how, TCP, signals and abstract sockets; the version that is used."""
    version = int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    if version < 1:
        raise _Unfit("this kernel has no landlock")
    files = _VERSION_1_RIGHTS
    files |= (version >= 2) * _REFER | (version >= 3) * _TRUNCATE | (version >= 5) * _IOCTL_DEV
    tcp = 3 if version >= 4 and not network else 0
    scopes = 3 if version >= 6 else 0
    attributes = (ctypes.c_uint64 * 3)(files, tcp, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise _Unfit("landlock takes no rules")
    for place, kind in rules:
        _allow(ruleset, place, _RIGHTS[kind] & files)
    if _LIBC.syscall(_RESTRICT, ruleset, 0) != 0:
        raise _Unfit("landlock is refused")
    os.close(ruleset)
    return version


def _allow(ruleset: int, place: str, rights: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # What is not there, or not for this user, needs no rule.
        return
    try:
        is_folder = os.fstat(opened).st_mode & 0o170000 == 0o040000
        rule = (ctypes.c_uint32 * 3)()
        # struct landlock_path_beneath_attr is packed: 64 bits of rights, 32 of descriptor.
        rights = rights if is_folder else rights & _FILE_RIGHTS
        rule[0], rule[1], rule[2] = rights & 0xFFFFFFFF, rights >> 32, opened
        if rights and _LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0) != 0:
            raise _Unfit(f"landlock takes no rule for {place}")
    finally:
        os.close(opened)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filtered(filters: tuple[bytes, bytes]) -> int | None:
    """Install the filter that asks a listener, and return the descriptor; where one listens already, the other."""
    for steps, flags in zip(filters, (_FILTER_WITH_LISTENER, 0), strict=True):
        program = _Program(len(steps) // 8, steps)
        installed = _LIBC.syscall(_SECCOMP, 1, ctypes.c_uint(flags), ctypes.byref(program))
        if installed >= 0:
            return int(installed) if flags else None
        if ctypes.get_errno() not in (errno.EBUSY, errno.EINVAL):
            break
    raise _Unfit("the filter of system calls is refused")


def _report(report_fd: int, applied: list[str], listener: int | None) -> None:
    report = _socket.socket(fileno=report_fd)
    handed = [] if listener is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))]
    report.sendmsg([",".join(applied).encode() or b"nothing"], handed)
    report.close()
    if listener is not None:
        os.close(listener)


if __name__ == "__main__":
    main()
