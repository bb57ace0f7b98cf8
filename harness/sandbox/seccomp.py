"""The seccomp filter as a BPF program.

System calls that no attack needs fail with an error. Most calls of an administrator also fail without capabilities,
which the launcher drops.

Where files outside of the scratch directory are not read-only, no permission, owner, time or attribute of any file can
be changed: landlock does not restrict that. Archives and copies set permissions and times, so these calls then succeed
without an effect. Setting a path's time to now fails instead: Path.touch() creates a missing file after that error.

Limits and scheduling can be set for the calling thread only, which every library names as 0: outside of a PID
namespace, a limit on processor time of 0 would kill any other process of the user. A filter cannot know the ids of the
process's own threads. Binding another thread to processors therefore succeeds without an effect, because the C library
starts no thread with an affinity otherwise.
"""

import errno
import platform
import struct
from collections.abc import Sequence

_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # name: number on x86_64, on aarch64 (asm/unistd_64.h, asm-generic/unistd.h)
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_WITHOUT_EFFECT: dict[str, tuple[int, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
}
_UNSUPPORTED: dict[str, tuple[int, int | None]] = {
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "truncate": (76, 45),  # by path, which landlock restricts since its version 3
}
_UTIMENSAT, _IOCTL = (280, 88), (16, 29)
_ATTRIBUTE_REQUESTS = (
    0x40086602,  # FS_IOC_SETFLAGS
    0x40046602,  # FS_IOC32_SETFLAGS
    0x40087602,  # FS_IOC_SETVERSION
    0x401C5820,  # FS_IOC_FSSETXATTR
    0x40806685,  # FS_IOC_ENABLE_VERITY
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
)
_OF_A_PROCESS: dict[str, tuple[int, int]] = {
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
_OF_A_KIND: dict[tuple[int, int], int] = {
    # The kind of process id: PRIO_PROCESS, IOPRIO_WHO_PROCESS. Others name groups and users.
    (141, 140): 0,  # setpriority
    (251, 30): 1,  # ioprio_set
}
_SCHED_SETAFFINITY, _PRLIMIT = (203, 122), (302, 261)
_SOCKET, _SOCKETPAIR, _CLONE, _CLONE3, _UNSHARE = (41, 198), (53, 199), (56, 220), (435, 435), (272, 97)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. For clone, the bit of NEWTIME is part of a signal.
_NAMESPACE_FLAGS, _NEWTIME = 0x7E020000, 0x80
_SOCK_STREAM, _SOCK_SEQPACKET, _AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 5, 1, 2, 10, 16

# struct sock_filter (linux/filter.h) and struct seccomp_data (linux/seccomp.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000

Instruction = tuple[int, int, int, int]


def is_supported_machine() -> bool:
    """Return True if the system call numbers of this machine's architecture are known."""
    return platform.machine() in _ARCHITECTURES


def filter_program(*, network: bool, has_read_only_files: bool) -> bytes:
    """Return the filter as struct sock_filter[].

    network: allow Internet sockets.
    has_read_only_files: the files outside of the scratch directory are on read-only mounts.
    """
    column, architecture = _ARCHITECTURES[platform.machine()]
    refuse = (_RETURN, 0, 0, _FAIL | errno.EPERM)
    unknown, denied = (_RETURN, 0, 0, _FAIL | errno.ENOSYS), (_RETURN, 0, 0, _FAIL | errno.EACCES)
    allow = (_RETURN, 0, 0, _ALLOW)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        # Calls of another architecture (i386 on x86_64) have other numbers, which this filter does not check.
        unknown,
        (_LOAD, 0, 0, _AT_NUMBER),
    ]
    if platform.machine() == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), unknown]

    def add(numbers: tuple[int | None, int | None], body: Sequence[Instruction]) -> None:
        if (number := numbers[column]) is not None:
            program.extend([(_EQUAL, 0, len(body), number), *body])

    first_argument, second_argument, third_argument = ((_LOAD, 0, 0, _AT_ARGUMENTS + 8 * place) for place in range(3))
    families = (_AF_INET, _AF_INET6, _AF_NETLINK) if network else ()
    allowed = [step for family in families for step in ((_EQUAL, 0, 1, family), allow)]
    add(_SOCKET, [first_argument, *allowed, denied])
    # Datagram sockets of a pair could still send to any address; connected ones cannot.
    add(
        _SOCKETPAIR,
        [
            first_argument,
            (_EQUAL, 1, 0, _AF_UNIX),
            denied,
            second_argument,
            (_AND, 0, 0, 0xF),
            (_EQUAL, 1, 0, _SOCK_STREAM),
            (_EQUAL, 0, 1, _SOCK_SEQPACKET),
            allow,
            denied,
        ],
    )
    for call, flags in ((_CLONE, _NAMESPACE_FLAGS), (_UNSHARE, _NAMESPACE_FLAGS | _NEWTIME)):
        add(call, [first_argument, (_ANY_BIT, 0, 1, flags), refuse, allow])
    # The flags of clone3 are in memory, which no filter can read. After ENOSYS, libraries fall back to clone.
    add(_CLONE3, [unknown])
    for numbers in _REFUSED.values():
        add(numbers, [refuse])
    for numbers in _OF_A_PROCESS.values():
        add(numbers, [first_argument, (_EQUAL, 0, 1, 0), allow, refuse])
    for numbers, kind in _OF_A_KIND.items():
        add(numbers, [first_argument, (_EQUAL, 0, 3, kind), second_argument, (_EQUAL, 0, 1, 0), allow, refuse])
    success = (_RETURN, 0, 0, _FAIL)
    add(_SCHED_SETAFFINITY, [first_argument, (_EQUAL, 0, 1, 0), allow, success])
    # The process, and both halves of the pointer to the new limit: NULL only reads.
    new_limit = [third_argument, (_EQUAL, 0, 3, 0), (_LOAD, 0, 0, _AT_ARGUMENTS + 20), (_EQUAL, 0, 1, 0)]
    add(_PRLIMIT, [first_argument, (_EQUAL, 4, 0, 0), *new_limit, allow, refuse])
    if not has_read_only_files:
        unsupported = (_RETURN, 0, 0, _FAIL | errno.EOPNOTSUPP)
        for numbers in _WITHOUT_EFFECT.values():
            add(numbers, [success])
        # The path, and the times: NULL is now.
        add(_UTIMENSAT, [second_argument, (_EQUAL, 2, 0, 0), third_argument, (_EQUAL, 1, 0, 0), success, unsupported])
        for numbers in _UNSUPPORTED.values():
            add(numbers, [unsupported])
        requests = [step for request in _ATTRIBUTE_REQUESTS for step in ((_EQUAL, 0, 1, request), unsupported)]
        add(_IOCTL, [second_argument, *requests, allow])
    program.append(allow)
    return b"".join(struct.pack("=HBBI", *step) for step in program)
