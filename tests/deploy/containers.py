"""Images that buildah has built without a registry, and containers that crun runs from them as the chart does.

A container has a read-only root, a /tmp in memory that is mounted noexec, the user of the image, no capabilities, and a
process 1 of its own. It shares the network of the machine.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.cache import CHECKOUT

PROGRAMS = ("buildah", "crun", "debootstrap")
# crun reads the cgroups of the machine and accepts only version 2 without version 1 beside it. No limits are set here.
WITH_CGROUPS = 'mount --make-rprivate /; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'


def missing() -> str | None:
    """Why no image can be built here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent or os.geteuid() != 0:
        found = f"no {', '.join(absent)}" if absent else "another user"
        return f"images are built by root with {', '.join(PROGRAMS)}, found {found}"
    return None


@dataclass
class BuiltImage:
    """An image in the storage of `without_registry.sh`, mounted at `root`, and its configuration."""

    root: Path
    config: dict[str, Any]
    folder: Path  # for bundles and for crun's state

    def variables(self) -> dict[str, str]:
        """The ENV of the image."""
        return dict(each.split("=", 1) for each in self.config["Env"])

    def _crun(self, *arguments: str | Path) -> list[str | Path]:
        wrapped = ["unshare", "--mount", "sh", "-euc", WITH_CGROUPS, "crun"]
        return [*wrapped, "crun", "--cgroup-manager=disabled", "--root", self.folder / "state", *arguments]

    def bundle(self, command: Sequence[str], environment: Mapping[str, str]) -> Path:
        """A folder with the configuration of a container."""
        user, group = (int(number) for number in self.config["User"].split(":"))
        hidden = ["nosuid", "noexec", "nodev", "mode=1777"]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": hidden},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": [*hidden, "size=64m"]},
        ]
        configuration = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user, "gid": group},
                "args": list(command),
                "env": [f"{name}={value}" for name, value in {**self.variables(), **environment}.items()],
                "cwd": self.config["WorkingDir"],
                "noNewPrivileges": True,
                "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted")},
            },
            "root": {"path": str(self.root), "readonly": True},
            "mounts": mounts,
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "mount", "uts")]},
        }
        folder = self.folder / secrets.token_hex(4)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(configuration))
        return folder

    def run(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a container until it exits."""
        bundle = self.bundle(command, environment or {})
        arguments = self._crun("run", "--bundle", bundle, bundle.name)
        return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)

    @contextmanager
    def running(self, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Running]:
        """Run a command in a container during the block."""
        bundle = self.bundle(command, environment)
        log = bundle / "log"
        with log.open("wb") as file:
            arguments = self._crun("run", "--bundle", bundle, bundle.name)
            process = subprocess.Popen(arguments, stdout=file, stderr=file)
            try:
                yield Running(process, log, [*self._crun("kill", bundle.name)])
            finally:
                # Process 1 of the container is gone as soon as crun ends, and with it all others.
                subprocess.run(self._crun("delete", "--force", bundle.name), capture_output=True, check=False)
                process.wait(timeout=60)


@dataclass
class Running:
    """A container in its block."""

    process: subprocess.Popen[bytes]
    log: Path
    _kill: list[str | Path]

    def signal(self, name: str) -> None:
        """Send a signal to process 1."""
        subprocess.run([*self._kill, name], check=True)

    def tail(self) -> str:
        """The end of what the container has printed."""
        return self.log.read_text(errors="replace")[-4000:]


@contextmanager
def built_without_registry(name: str, folder: Path) -> Iterator[BuiltImage]:
    """Build an image below a folder; both are gone after the block. With the driver vfs nothing is really mounted."""
    script = CHECKOUT / "deploy" / "images" / "without_registry.sh"
    buildah = ["buildah", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs"]

    def output(*arguments: str) -> str:
        return subprocess.run([*buildah, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    try:
        run = subprocess.run([script, folder, name], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
        tag = next(line.split()[:2] for line in run.stdout.splitlines() if f"glaim-stream/{name} " in line)
        described = json.loads(output("inspect", "--type", "image", ":".join(tag)))
        container = output("from", "--pull-never", ":".join(tag))
        yield BuiltImage(Path(output("mount", container)), described["OCIv1"]["config"], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
