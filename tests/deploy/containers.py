"""Containers of the images, run by buildah in a chroot like the services in docker/compose.yaml.

Image, command, environment, secrets, volumes, memory for /tmp, user, missing capabilities and privileges, and the
read-only root are as in Compose. The network is the host's, processes are not isolated, and no limit applies.
"""

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.deploy import compose
from tests.deploy.images import FOLDER, NAMES, DeployError, buildah, inspect, run

IMAGES: Final = {"upgrade": "web", "web": "web", "beat": "web", "worker": "worker"}
USER: Final = 10001


class Container:
    """A container of a service: `start` runs the service's command in it, `execute` any other command."""

    def __init__(
        self, service: str, secrets_folder: Path, models: Path, changed: Mapping[str, str], *volumes: str
    ) -> None:
        self.service = service
        self.image = NAMES[IMAGES[service]]
        self.name = f"deploy-{service}-{secrets.token_hex(4)}"
        self.folder = FOLDER / "containers" / self.name
        self.log = FOLDER / f"{service}.log"
        self._changed = changed
        self._process: subprocess.Popen[bytes] | None = None
        run(buildah("from", "--pull-never", "--name", self.name, self.image), f"a container of {self.image}")
        self._options = self._volumes(secrets_folder, models)
        self._options += [word for volume in volumes for word in ("--volume", volume)]
        for key, value in compose.environment(service).items():
            self._options += ["--env", f"{key}={value}"]

    def _volumes(self, secrets_folder: Path, models: Path) -> list[str]:
        options = []
        places, memory = compose.list_mounted(self.service)
        for place, writable in places.items():
            source = models if place == "/models" else self.folder / place.strip("/")
            if writable:
                source.mkdir(parents=True)
                os.chown(source, USER, USER)
                source.chmod(0o700)
            options += ["--volume", f"{source}:{place}:{'rw' if writable else 'ro'}"]
        for place in memory:
            # No tmpfs is used, since each run of buildah in the container would get another one.
            source = self.folder / place.strip("/")
            source.mkdir(parents=True)
            source.chmod(0o1777)
            options += ["--volume", f"{source}:{place}:rw"]
        for name in compose.services()[self.service]["secrets"]:
            options += ["--volume", f"{secrets_folder / name}:/run/secrets/{name}:ro"]
        return options

    # Running

    def command(self) -> list[str]:
        """Return the command of the service: Compose's entrypoint and command, else the image's."""
        service = compose.services()[self.service]
        image = inspect(self.image)["Docker"]["config"]
        if "entrypoint" in service:
            return self._adapted(compose.words(service["entrypoint"]) + compose.words(service["command"]))
        words = compose.words(service["command"]) if "command" in service else image["Cmd"]
        return self._adapted(image["Entrypoint"] + words)

    def health_command(self) -> list[str]:
        """Return the health check: Compose's, else the image's."""
        service = compose.services()[self.service]
        test = (
            service["healthcheck"]["test"]
            if "healthcheck" in service
            else inspect(self.image)["Docker"]["config"]["Healthcheck"]["Test"]
        )
        assert test[0] == "CMD", test
        return self._adapted(test[1:])

    def _adapted(self, words: Sequence[str]) -> list[str]:
        """Return the command with the necessary changes, such as another port, since the network is the host's."""
        adapted = list(words)
        for old, new in self._changed.items():
            adapted = [word.replace(old, new) for word in adapted]
        return adapted

    def _line(self, words: Sequence[str]) -> list[str]:
        user, group = inspect(self.image)["Docker"]["config"]["User"].split(":")
        # buildah has no option for a read-only root: root in the container remounts it, and then becomes the user for
        # good.
        confined = (
            f"mount -o remount,bind,ro / && exec setpriv --reuid={user} --regid={group} --clear-groups --no-new-privs "
            '--bounding-set=-all --inh-caps=-all -- "$@"'
        )
        options = ["--isolation", "chroot", "--cap-add", "CAP_SYS_ADMIN", "--user", "0:0", *self._options]
        return [str(word) for word in buildah("run", *options, self.name, "--", "sh", "-c", confined, "sh", *words)]

    def execute(self, *words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as `docker compose exec` would, and wait for it."""
        done = subprocess.run(self._line(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if status is not None and done.returncode != status:
            raise DeployError(
                f"{self.service}: {' '.join(words)}: status {done.returncode}, not {status}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        return done

    def healthy(self) -> bool:
        """Return whether the health check succeeds."""
        return self.execute(*self.health_command(), status=None).returncode == 0

    def start(self) -> None:
        """Start the service's command."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._line(self.command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_healthy(self, within_s: float) -> None:
        """Wait until the container is healthy.

        Raises DeployError with the end of the log if it ends, or after the time limit.
        """
        self.wait_until(self.healthy, "is not healthy", within_s)

    def wait_until(self, condition: Callable[[], bool], otherwise: str, within_s: float) -> None:
        """Wait until the condition is true.

        Raises DeployError if the container ends before, or after the time limit.
        """
        assert self._process is not None
        deadline = time.monotonic() + within_s
        while not condition():
            if self._process.poll() is not None:
                raise DeployError(
                    f"{self.service} ended with status {self._process.returncode}\n{self._read_log_end()}"
                )
            if time.monotonic() > deadline:
                raise DeployError(f"{self.service} {otherwise} after {within_s:.0f} s\n{self._read_log_end()}")
            time.sleep(1)

    def _read_log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def _processes(self) -> list[int]:
        """Return the processes in the container, the first one first, without the processes of buildah."""
        assert self._process is not None
        waiting, processes = [self._process.pid], []
        while waiting:
            number = waiting.pop(0)
            with suppress(OSError):  # the process may have ended
                # Each thread has its own children: buildah starts processes in any thread.
                lists = [file.read_text() for file in Path(f"/proc/{number}/task").glob("*/children")]
                waiting += [int(word) for words in lists for word in words.split()]
                inside = not Path(f"/proc/{number}/root").samefile("/")
                if inside and not str(Path(f"/proc/{number}/exe").readlink()).startswith("/memfd:buildah"):
                    processes.append(number)
        return processes

    def main_process(self) -> int:
        """Return the number of the container's first process, to which an engine would send signals."""
        processes = self._processes()
        if not processes:
            raise DeployError(f"{self.service} runs no process\n{self._read_log_end()}")
        return processes[0]

    def confinement(self) -> str:
        """Return the service's user and permissions. Raises DeployError unless they are minimal."""
        folder = Path(f"/proc/{self.main_process()}")
        status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
        users = set(status["Uid"].split())
        capabilities = int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapBnd"], 16)
        mounts = [line.split() for line in (folder / "mountinfo").read_text().splitlines()]
        root = [words[5].split(",")[0] for words in mounts if words[4] == "/"][-1]
        if (users, capabilities, status["NoNewPrivs"], root) != ({str(USER)}, 0, "1", "ro"):
            raise DeployError(f"{self.service}: users {users}, capabilities {capabilities:x}, root {root}")
        return f"user {USER}, no capability, root read-only"

    def stop(self, within_s: float) -> tuple[int, float]:
        """Send SIGTERM to the service; return (status, seconds). Raises DeployError if it does not end in time."""
        assert self._process is not None
        begun = time.monotonic()
        os.kill(self.main_process(), signal.SIGTERM)
        try:
            status = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise DeployError(
                f"{self.service} did not end within {within_s:.0f} s of SIGTERM\n{self._read_log_end()}"
            ) from None
        return status, time.monotonic() - begun

    def remove(self) -> None:
        """End all processes and remove the container with its volumes; never raises."""
        if self._process is not None and self._process.poll() is None:
            for number in self._processes():
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        subprocess.run([str(word) for word in buildah("rm", self.name)], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
