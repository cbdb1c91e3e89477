"""Simulated disks for tests: with files that are durable, and what is in one."""

from barnabas.testing.disk import SimulatedDisk


def disk_with(files: dict[str, bytes], *, seed: int = 0) -> SimulatedDisk:
    """A disk whose files are durable, bytes and names."""
    disk = SimulatedDisk(seed)
    for name, data in files.items():
        file = disk.open(name, create=True)
        file.write(0, data)
        file.sync()
    disk.sync_dir("")
    return disk


def content(disk: SimulatedDisk, name: str) -> bytes:
    return disk.open(name).read(0, 1 << 20)
