"""Checks of the files in docker/ that need no image; `make deploy-check` makes the others."""

import re
import stat
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from registry.settings import Settings, get_settings
from tests.deploy import compose, images
from tests.deploy.images import BASE, DOCKERFILE, ROOT, pip_settings

PYTHON_OF = {"bookworm": "3.11"}
INSTRUCTIONS = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENDS = ("upgrade",)
"""Services that end without being stopped."""


def make(instruction: str) -> list[str]:
    return [line.removeprefix(f"{instruction} ") for line in INSTRUCTIONS if line.startswith(f"{instruction} ")]


def stage(name: str) -> list[str]:
    """Return the instructions of one stage of the Dockerfile."""
    begin = next(number for number, line in enumerate(INSTRUCTIONS) if line.endswith(f" AS {name}"))
    rest = [number for number, line in enumerate(INSTRUCTIONS) if number > begin and line.startswith("FROM ")]
    return INSTRUCTIONS[begin : rest[0] if rest else None]


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)


def tool(name: str) -> Path:
    return Path(sys.executable).parent / name


# The Dockerfile


def test_hadolint_finds_nothing() -> None:
    done = run(tool("hadolint"), "--config", ROOT / "docker/.hadolint.yaml", DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_exception_for_hadolint_says_why() -> None:
    lines = (ROOT / "docker/.hadolint.yaml").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if line.strip().startswith("- DL"):
            assert lines[number - 1].strip().startswith("#")


def test_python_and_torch_are_those_of_the_project() -> None:
    release = BASE.split(":")[1].removesuffix("-slim")
    assert make("FROM")[0] == f"{BASE} AS python"
    assert SpecifierSet(PROJECT["requires-python"]).contains(PYTHON_OF[release])
    *installs, ours = sorted(
        (line for line in make("RUN") if "pip install" in line), key=lambda line: "/package" in line
    )
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes --only-binary :all: --no-deps" in line
        assert "&& pip check" in line  # a lock that lacks a package
    assert "--no-build-isolation --no-deps" in ours  # otherwise pip would download the latest build tools
    assert f"VERSION={PROJECT['version']}" in make("ARG")


LOCKS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docker/locks").iterdir()}


def read_lock(name: str) -> dict[str, str]:
    """Return a lock's versions by package."""
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+) \\$", LOCKS[name], re.MULTILINE))


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_digests_and_no_place(name: str) -> None:
    entries = re.findall(r"^[^#\s].*(?:\n .*)*\n", LOCKS[name], re.MULTILINE)
    for entry in entries:
        head, *digests = entry.replace("\\\n", "").split()
        assert re.fullmatch(r"[a-z0-9-]+==\S+", head)
        assert digests, head
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", digest) for digest in digests)
    assert len(entries) == len(read_lock(name)) == LOCKS[name].count("==")


def test_locked_packages_are_the_required_ones_at_tested_versions() -> None:
    assert set(LOCKS) == {"build", "web", "worker-cpu", "worker-cuda"}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines if "==" in line}
    extras = PROJECT["optional-dependencies"]
    system = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    requirements = {"build": system, "web": PROJECT["dependencies"]}
    requirements |= {name: [*extras["worker"], *extras["providers"]] for name in ("worker-cpu", "worker-cuda")}
    for name, wanted in requirements.items():
        locked = read_lock(name) | (read_lock("web") if name.startswith("worker") else {})
        for requirement in map(Requirement, wanted):
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), (
                f"{name}: {requirement}; run `make lock`"
            )
        for package, version in locked.items():
            assert version.removesuffix("+cpu") == pinned.get(package, version), f"{name}: {package}; run `make lock`"
    # A worker's lock is applied after the website's.
    assert not read_lock("web").keys() & (read_lock("worker-cpu").keys() | read_lock("worker-cuda").keys())
    assert read_lock("worker-cpu")["torch"] == f"{read_lock('worker-cuda')['torch']}+cpu"


@pytest.mark.parametrize("names", [("web",), ("build",), ("web", "worker-cuda")], ids="+".join)
def test_locks_have_all_that_their_packages_require(names: tuple[str, ...]) -> None:
    """Check the installed packages, since pip installs only the packages of a lock."""
    locked = {package: version for name in names for package, version in read_lock(name).items()}
    python = {"python_version": PYTHON_OF["bookworm"], "python_full_version": f"{PYTHON_OF['bookworm']}.2", "extra": ""}
    installed = [
        distribution
        for distribution in metadata.distributions()
        if canonicalize_name(distribution.metadata["Name"]) in locked
    ]
    assert len(installed) > len(locked) // 2
    for distribution in installed:
        for needed in map(Requirement, distribution.requires or ()):
            if needed.marker is None or needed.marker.evaluate(python):
                version = locked.get(canonicalize_name(needed.name))
                assert version is not None, f"{distribution.metadata['Name']} requires {needed}; run `make lock`"
                assert needed.specifier.contains(version, prereleases=True)


@pytest.mark.parametrize("target", ["web", "worker"])
def test_an_image_runs_one_process_as_nobody_in_particular(target: str) -> None:
    lines = stage(target)
    assert "USER 10001:10001" in lines
    assert "STOPSIGNAL SIGTERM" in lines
    assert 'ENTRYPOINT ["shuffleboard"]' in lines  # no shell in between: signals reach it
    health = next(line for line in lines if line.startswith("HEALTHCHECK"))
    assert "CMD [" in health
    # Compilers and pip's downloads remain in earlier stages.
    assert lines[0].startswith("FROM python AS ")
    assert not [line for line in lines if "pip install" in line]
    for line in lines:
        assert "gcc" not in line or '"${TORCH}" = cuda' in line or line.startswith("#")


def test_the_build_is_given_what_is_installed_and_nothing_else(tmp_path: Path) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    packages = ("registry", "workers", "web", "migrations", "shuffleboard")
    assert set(let_in) == {
        *packages,
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "docker/locks",
        "hatch_build.py",
    }
    for kept_out in (".git", ".venv", ".venv-peer", "build", "tests", "docker/secrets", "docker/.env"):
        assert not [rule for rule in let_in if fnmatch(kept_out, rule) or kept_out.startswith(f"{rule}/")]


# Secrets


def make_secrets(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(ROOT / "docker/make-secrets", folder, env={"PATH": "/usr/bin:/bin", **environment})


def test_secrets_are_made_once_and_never_again(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert make_secrets(folder).returncode == 0
    before = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}
    again = make_secrets(folder)
    assert (again.returncode, "nothing was changed" in again.stderr) == (1, True)
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == before
    # Every password is different, but the same in each file that contains it.
    passwords = set(re.findall(r"\b[0-9a-f]{48}\b", "".join(before.values())))
    assert len(passwords) == 6
    assert before["postgres_password"].strip() in before["superuser_url"]
    assert before["redis_conf"].split()[1] in before["broker_url"]
    roles = dict(line.split("=") for line in before["role_passwords"].split())
    app = roles["shuffleboard_app"]
    assert before["app_url"].startswith(f"postgresql://shuffleboard_app:{app}@postgres:5432/")


def test_secrets_that_cannot_be_made_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "od").symlink_to("/bin/false")
    done = make_secrets(tmp_path / "secrets", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert (done.returncode, "nothing was made" in done.stderr) == (1, True)
    assert not (tmp_path / "secrets").exists()


def test_every_secret_is_made_and_used(tmp_path: Path) -> None:
    make_secrets(tmp_path / "secrets")
    names = {path.name for path in (tmp_path / "secrets").iterdir()}
    declared = compose.document()["secrets"]
    assert {name: secret["file"] for name, secret in declared.items()} == {name: f"./secrets/{name}" for name in names}
    for name, service in compose.services().items():
        named = set(re.findall(r"/run/secrets/(\w+)", str(service)))
        assert named == set(service.get("secrets", ())), name
    assert {secret for service in compose.services().values() for secret in service.get("secrets", ())} == names


def test_no_environment_holds_a_password() -> None:
    for name in compose.services():
        for key, value in compose.environment(name).items():
            if re.search("PASSWORD|URL$|KEY|SECRET|TOKEN", key) and key != "SHUFFLEBOARD_PUBLIC_URL":
                assert (key.endswith("_FILE"), value.startswith("/run/secrets/")) == (True, True), f"{name}: {key}"
    assert not [name for name in compose.variables() if re.search("PASSWORD|KEY$|TOKEN", name)]


# compose.yaml


def test_the_compose_file_keeps_the_specification() -> None:
    done = run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", compose.COMPOSE)
    assert done.returncode == 0, done.stdout


def test_its_settings_exist() -> None:
    fields = set(Settings.model_fields)
    for name in compose.services():
        for key in compose.environment(name):
            if key.startswith("SHUFFLEBOARD_"):
                field = key.removeprefix("SHUFFLEBOARD_").lower()
                assert field in fields or field.removesuffix("_file") in fields, f"{name}: {key}"


@pytest.mark.parametrize("name", ["web", "beat", "worker", "upgrade"])
def test_the_settings_of_a_service_can_be_read(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_secrets(tmp_path / "secrets")
    for key, value in compose.environment(name).items():
        monkeypatch.setenv(key, value.replace("/run/secrets", str(tmp_path / "secrets")))
    role = {"upgrade": "postgres"}.get(name, "shuffleboard_app")
    assert get_settings().resolve_database_url().startswith(f"postgresql+psycopg://{role}:")
    assert get_settings().lease_seconds == Settings.model_fields["lease_seconds"].default


@pytest.mark.parametrize("name", compose.services())
def test_every_service_is_contained(name: str) -> None:
    service = compose.services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert {"cpus", "memory", "pids"} <= set(service["deploy"]["resources"]["limits"])
    assert service["logging"]["options"]["max-size"]
    assert service["restart"] == ("no" if name in ENDS else "unless-stopped")
    assert "/tmp" in service["tmpfs"]
    assert service["stop_grace_period"]
    ours = "build" in service
    assert ours or service["user"] in ("postgres", "redis")  # our images set the user themselves
    assert service.get("init", False) == ours
    if name in ENDS:
        assert service["healthcheck"] == {"disable": True}
    else:
        target = service["build"]["target"] if ours else ""
        of_image = ours and any(line.startswith("HEALTHCHECK") for line in stage(target))
        assert of_image or service["healthcheck"]["test"]
    # The image's own check requests a page.
    assert name != "beat" or service["healthcheck"]["test"][-1] == "beat"


def test_database_and_broker_are_reached_from_inside_alone() -> None:
    assert compose.document()["networks"]["inside"] == {"internal": True}
    for name, service in compose.services().items():
        assert "inside" in service["networks"]
        if name in ("postgres", "redis", "upgrade"):
            assert service["networks"] == ["inside"]
        assert ("ports" in service) == (name == "web")
    assert compose.services()["web"]["ports"] == ["127.0.0.1:8000:8000"]


def test_what_is_mounted_can_be_used() -> None:
    for name in compose.services():
        places, memory = compose.list_mounted(name)
        home = compose.environment(name).get("SHUFFLEBOARD_HOME", "/data")
        # An engine gives memory the mode of the image's folder, but root as its owner: over /data ours could not write.
        if compose.services()[name]["image"].startswith("shuffleboard-"):
            assert memory == ["/tmp"], name
            assert places.get(home, home in memory), name
            assert places.get(compose.environment(name)["SHUFFLEBOARD_ARCHIVES"]), "folders that all of them reach"
    # Not every Compose makes the folder of a bind mount: it comes with the repository, and stays empty there.
    assert compose.variables()["MODELS_FOLDER"] == "./models"
    ignored = (ROOT / "docker/models/.gitignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in ignored if not line.startswith("#")] == ["*", "!.gitignore"]
    assert "/models/" not in (ROOT / "docker/.gitignore").read_text(encoding="utf-8").splitlines()


def test_everything_waits_for_the_upgrade() -> None:
    for name in ("web", "beat", "worker", "worker-gpu"):
        assert compose.services()[name]["depends_on"]["upgrade"] == {"condition": "service_completed_successfully"}
    assert compose.services()["upgrade"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_only_the_profile_takes_a_gpu() -> None:
    for name, service in compose.services().items():
        reserved = service["deploy"]["resources"].get("reservations", {}).get("devices", [])
        assert bool(reserved) == (name == "worker-gpu") == (service.get("profiles") == ["gpu"])
    assert compose.services()["worker-gpu"]["build"]["args"] == {"REVISION": "unknown", "TORCH": "cuda"}


def test_the_example_shows_every_variable_with_its_default() -> None:
    lines = (ROOT / "docker/.env.example").read_text(encoding="utf-8").splitlines()
    shown = dict(line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#\w+=", line))
    assert not [line for line in lines if line and not line.startswith("#")]
    assert set(shown) == set(compose.variables())
    for name, default in compose.variables().items():
        field = Settings.model_fields.get(name.removeprefix("SHUFFLEBOARD_").lower())
        if default or field is None:
            assert shown[name] == default
        else:  # empty: the program's own
            own = field.default
            text = (
                {True: "true", False: "false"}.get(own, "")
                if isinstance(own, bool)
                else f"{own:.10g}"
                if isinstance(own, float)
                else own
            )
            assert shown[name] == str(text)


# The machine's own pip settings, in the build


def test_pip_in_the_build_is_told_what_pip_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/somewhere/wheels")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "77")
    settings = pip_settings()
    assert settings["find-links"] == "/somewhere/wheels"
    assert settings["default-timeout"] == "77"


def test_pips_configured_files_are_carried_into_the_build_without_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("one<2\n", encoding="utf-8")
    second.write_text("two<3\n", encoding="utf-8")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setattr(images, "FOLDER", tmp_path / "deploy")
    configuration = {
        "constraint": f"{first} {second.as_uri()}",
        "build-constraint": str(first),
        "find-links": str(wheels),
    }
    own = {"cache-dir": str(wheels), "log": str(tmp_path / "none"), "python": sys.executable, "retries": "7"}
    monkeypatch.setattr(images, "pip_settings", lambda: configuration | own)

    volumes = dict(volume.removesuffix(":ro").split(":")[::-1] for volume in images.pip_volumes())
    written = Path(volumes.pop("/etc/pip.conf")).read_text(encoding="utf-8").splitlines()
    settings = dict(line.split(" = ") for line in written if "=" in line)
    assert settings.keys() == {"constraint", "build-constraint", "find-links", "retries"}
    carried = [Path(volumes.pop(name)).read_text(encoding="utf-8") for name in settings["constraint"].split()]
    assert carried == ["one<2\n", "two<3\n"]
    assert Path(volumes.pop(settings["build-constraint"])).read_text(encoding="utf-8") == "one<2\n"
    assert volumes == {str(wheels): str(wheels)}
