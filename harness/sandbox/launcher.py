"""Restrict this process as a configuration says, then become the command. A script on the standard library alone.

    python -I -S launcher.py CONFIG_FD REPORT_FD COMMAND...

`backends.py` writes the configuration, a marshalled dict, because importing json takes longer than all of this. If
REPORT_FD is not -1, it is the end of a pipe, to which the launcher writes the names of what it applied. If a required
restriction cannot be applied, the process ends with a sentence on stderr.
"""

import _signal
import ctypes
import marshal
import os
import resource
import sys

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_SECCOMP = 317 if os.uname().machine == "x86_64" else 277
_MOUNT_SETATTR, _CREATE_RULESET, _ADD_RULE, _RESTRICT = 442, 444, 445, 446

_NEWNS, _NEWUSER, _NEWPID, _NEWNET, _NEWIPC = 0x00020000, 0x10000000, 0x20000000, 0x40000000, 0x08000000
_NAMESPACES = {_NEWUSER: "user", _NEWPID: "pid", _NEWNS: "mount", _NEWIPC: "ipc", _NEWNET: "net"}
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (the sandbox's own)
_CAP_AMBIENT_CLEAR_ALL, _LAST_CAPABILITY, _CAPABILITY_VERSION_3 = 4, 63, 0x20080522

# Access rights (linux/landlock.h).
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
_VERSION_1_RIGHTS = (1 << 13) - 1
_RIGHTS = {
    "read": _EXECUTE | _READ_FILE | _READ_DIR,
    "list": _READ_DIR,
    "device": _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV,
    # All rights except creating device nodes.
    "write": (_VERSION_1_RIGHTS | _REFER | _TRUNCATE) & ~(1 << 6) & ~(1 << 11),
}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

# What libraries read about the machine and about their own process, if the sandbox has no /proc of its own.
_PROC_PATHS = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/version", "/proc/loadavg"),
    *("/proc/uptime", "/proc/filesystems", "/proc/driver", "/proc/devices", "/proc/modules"),
)


class _Unavailable(Exception):
    """The kernel refuses a restriction that the configuration requires."""


def main() -> None:
    """Apply the configuration, report, and become the command."""
    config_fd, report_fd, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with os.fdopen(config_fd, "rb") as file:
        file.seek(0)
        config = marshal.load(file)  # noqa: S302 (the parent process wrote it)
    try:
        applied = _restrict(config)
    except (_Unavailable, OSError) as error:
        sys.stderr.write(f"the sandbox could not be created: {error}.\n")
        os._exit(126)
    if report_fd >= 0:
        os.write(report_fd, ",".join(applied).encode() or b"nothing")
        os.close(report_fd)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        # Python ignores them, and the command would inherit that.
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 (the purpose of this script)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be started ({error.strerror}).\n")
        os._exit(127)


def _restrict(config: "dict[str, Any]") -> list[str]:
    """Apply all restrictions. Return their names."""
    rules, network = config["file_rules"], config["network"]
    applied = _enter_namespaces(config) if config["creates_namespaces"] else []
    if config["makes_files_read_only"] and ("mount" in applied or config["has_own_root"]):
        has_memory = "shm" in applied or (config["has_own_root"] and os.path.ismount(_SHARED_MEMORY))
        if _make_files_read_only([*config["writable"], *([_SHARED_MEMORY] if has_memory else [])]):
            applied.append("read-only files")
    _set_limits(config["limits"])
    if config["processes"] and ("user" in applied or config["has_user_namespace"]) and os.getuid() != 0:
        # Inside its own user namespace the limit counts no other process of the user. It does not bind root.
        _set_limits([(resource.RLIMIT_NPROC, config["processes"])])
        applied.append("RLIMIT_NPROC")
    if config["filter"]:
        _drop_privileges()
    if rules is not None:
        rules = [*rules, *((path, "read") for path in (("/proc",) if "proc" in applied else _PROC_PATHS))]
        if "shm" in applied:
            rules.append((_SHARED_MEMORY, "write"))
        applied.append(f"landlock {_apply_landlock(rules, network=network)}")
    if not config["filter"]:
        return applied
    _open_own_streams()
    has_read_only_files = "read-only files" in applied or config["has_own_root"]
    _install_filter(config["filter" if has_read_only_files else "filter_for_writable_files"])
    return [*applied, "seccomp"]


def _set_limits(limits: list[tuple[int, int]]) -> None:
    for kind, limit in limits:
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))


def _enter_namespaces(config: "dict[str, Any]") -> list[str]:
    """Continue in new namespaces if the kernel allows it. Return the names of what was created.

    This returns in the second process of the new PID namespace; the first one reaps orphans and ends with the second.
    """
    namespaces, uid, gid = _NEWNS | _NEWPID | _NEWIPC | (0 if config["network"] else _NEWNET), os.getuid(), os.getgid()
    for flags in (namespaces, namespaces | _NEWUSER):
        if _LIBC.unshare(flags) == 0:
            break
    else:
        return []
    if flags & _NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    applied = [name for flag, name in _NAMESPACES.items() if flags & flag]
    if (first := os.fork()) != 0:
        _wait_for(first)
    _LIBC.prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    if _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE):
        flags = _MS_NOSUID | _MS_NODEV
        if _mount(b"proc", b"/proc", b"proc", flags | _MS_NOEXEC):
            applied.append("proc")
        size = f"size={config['shared_memory']},mode=1777".encode()
        if _mount(b"tmpfs", _SHARED_MEMORY.encode(), b"tmpfs", flags, size):
            applied.append("shm")
    if (second := os.fork()) != 0:
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        _wait_for(second)
    os.setsid()
    return applied


def _make_files_read_only(exceptions: list[str]) -> bool:
    """Make every mount read-only except for these directories. Return False if the kernel refuses.

    Landlock restricts neither permissions nor owners, times and attributes, which the owner of a file could change.
    """
    for path in map(os.fsencode, exceptions):
        if not _mount(path, path, None, _MS_BIND):
            return False
    if not _set_read_only(b"/", _AT_RECURSIVE, is_on=True):
        return False
    for path in map(os.fsencode, exceptions):
        if not _set_read_only(path, 0, is_on=False):
            raise _Unavailable(f"the kernel refuses to make {os.fsdecode(path)} writable")
    # The current directory is still the one below the mount.
    os.chdir(os.getcwd())  # noqa: PTH109
    return True


def _set_read_only(path: bytes, flags: int, *, is_on: bool) -> bool:
    # struct mount_attr: attributes to set, attributes to clear, propagation, user namespace.
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY if is_on else 0, 0 if is_on else _READ_ONLY, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    return bool(_LIBC.syscall(_MOUNT_SETATTR, _AT_FDCWD, path, ctypes.c_uint(flags), attributes, size) == 0)


def _open_own_streams() -> None:
    """Open /dev/null again where it is a standard stream: through the inherited one, its permissions can be changed."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        if os.fstat(stream).st_rdev == os.fstat(null).st_rdev:
            os.dup2(null, stream)
    os.close(null)


def _mount(source: bytes, path: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> bool:
    return bool(_LIBC.mount(source, path, kind, ctypes.c_ulong(flags), options) == 0)


def _wait_for(child: int) -> None:
    """Close all descriptors, reap children until `child` ends, and exit with its code, 128 + N for signal N."""
    os.closerange(3, 1 << 16)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _drop_privileges() -> None:
    """Drop all capabilities, and the ways to regain them: set-user-ID programs and being root."""
    for capability in range(_LAST_CAPABILITY + 1):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _LIBC.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _Unavailable("the kernel refuses no_new_privs")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _LIBC.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise _Unavailable("the kernel refuses to drop capabilities")


def _apply_landlock(rules: list[tuple[str, str]], *, network: bool) -> int:
    """Restrict files to `rules`, and TCP, signals and abstract sockets if the kernel can. Return landlock's version."""
    version = int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    if version < 1:
        raise _Unavailable("this kernel has no landlock")
    files = _VERSION_1_RIGHTS
    files |= (version >= 2) * _REFER | (version >= 3) * _TRUNCATE | (version >= 5) * _IOCTL_DEV
    tcp = 3 if version >= 4 and not network else 0
    scopes = 3 if version >= 6 else 0
    attributes = (ctypes.c_uint64 * 3)(files, tcp, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise _Unavailable("the kernel refuses to create a landlock ruleset")
    for path, kind in rules:
        _allow(ruleset, path, _RIGHTS[kind] & files)
    if _LIBC.syscall(_RESTRICT, ruleset, 0) != 0:
        raise _Unavailable("the kernel refuses to apply the landlock ruleset")
    os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # A path that does not exist, or that this user cannot reach, needs no rule.
        return
    try:
        is_directory = os.fstat(opened).st_mode & 0o170000 == 0o040000
        rule = (ctypes.c_uint32 * 3)()
        # struct landlock_path_beneath_attr is packed: 64 bits of rights, 32 of descriptor.
        rights = rights if is_directory else rights & _FILE_RIGHTS
        rule[0], rule[1], rule[2] = rights & 0xFFFFFFFF, rights >> 32, opened
        if rights and _LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0) != 0:
            raise _Unavailable(f"the kernel refuses the landlock rule for {path}")
    finally:
        os.close(opened)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _install_filter(steps: bytes) -> None:
    """Install the seccomp filter `steps`, struct sock_filter[]."""
    program = _Program(len(steps) // 8, steps)
    if _LIBC.syscall(_SECCOMP, 1, ctypes.c_uint(0), ctypes.byref(program)) != 0:
        raise _Unavailable("the kernel refuses the seccomp filter")


if __name__ == "__main__":
    main()
