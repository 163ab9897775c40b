"""The page cache, which affects results on virtual machines.

A hypervisor can take free memory from a virtual machine (free page reporting). The next use of such a page takes about
ten times as much CPU. Results then depend on how much memory happens to be free. While the page cache holds all memory,
the kernel reuses pages that the virtual machine still has.
"""

import resource
import time
from pathlib import Path

MIB = 2**20
# The page cache is full if less memory is free. The kernel itself keeps some hundred MiB free.
FREE_BYTES = 512 * MIB
# Smaller files take longer to open than to read.
FILE_BYTES_MIN = MIB
# A hypervisor takes pages that have been free for about two seconds.
IDLE_SECONDS = 4


def fill(directory: Path) -> None:
    """Reads files below `directory` until the page cache holds all free memory."""
    for path in sorted(directory.rglob("*")):
        if _free_bytes() < FREE_BYTES:
            return
        if path.is_file() and not path.is_symlink() and path.stat().st_size >= FILE_BYTES_MIN:
            with open(path, "rb", buffering=0) as file:
                while file.read(8 * MIB):
                    pass
    if _free_bytes() >= FREE_BYTES:
        raise RuntimeError(f"the files in {directory} are too small: {_free_bytes() // MIB} MiB are still free")


def write_cost(directory: Path) -> dict:
    """Returns the CPU time to write 8 MiB to a file, with free memory and with memory that was freed directly before."""
    _write_ms(directory)
    time.sleep(IDLE_SECONDS)
    return {"free_memory_ms": _write_ms(directory), "reused_memory_ms": _write_ms(directory)}


def _write_ms(directory: Path, files: int = 20) -> float:
    content = bytes(8 * MIB)
    paths = [directory / f"page-cache-{number}" for number in range(files)]
    began = _system_seconds()
    for path in paths:
        path.write_bytes(content)
    seconds = _system_seconds() - began
    for path in paths:
        path.unlink()
    return round(seconds * 1000 / files, 2)


def _system_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no MemFree")
