"""The manifests of docker/kubernetes: valid, confined, and with settings, secrets and commands that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator

from registry.settings import Settings
from shuffleboard.cli import cli
from tests.deploy import compose, manifests
from tests.deploy.images import ROOT
from tests.deploy.manifests import KUBERNETES, OVERLAYS, VERSION, containers, environment, pods, write

NAMES = {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"}


def an_object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    properties = required | (optional or {})
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


NAMED = an_object({"name": NAMES}, {"namespace": NAMES, "labels": {"type": "object"}})
SECONDS = {"type": "integer", "minimum": 0}
# The part of KEDA 2 that we use, which kubernetes-validate does not know.
KEDA = {
    "ScaledObject": an_object(
        {
            "scaleTargetRef": an_object(
                {"apiVersion": {"const": "apps/v1"}, "kind": {"enum": ["StatefulSet"]}, "name": NAMES}
            ),
            "minReplicaCount": SECONDS,
            "maxReplicaCount": {"type": "integer", "minimum": 1},
            "pollingInterval": SECONDS,
            "cooldownPeriod": SECONDS,
            "advanced": an_object({"horizontalPodAutoscalerConfig": an_object({"behavior": {"type": "object"}})}),
            "triggers": {
                "type": "array",
                "minItems": 1,
                "items": an_object(
                    {
                        "type": {"const": "postgresql"},
                        "metadata": an_object(
                            {
                                "query": {"type": "string", "pattern": "^SELECT "},
                                "targetQueryValue": {"type": "string", "pattern": "^[1-9][0-9]*$"},
                            }
                        ),
                        "authenticationRef": an_object({"name": NAMES}),
                    }
                ),
            },
        }
    ),
    "TriggerAuthentication": an_object(
        {
            "secretTargetRef": {
                "type": "array",
                "items": an_object({"parameter": {"const": "connection"}, "name": NAMES, "key": {"type": "string"}}),
            }
        }
    ),
}


def check(manifest: manifests.Manifest) -> None:
    """Check that Kubernetes, or KEDA, would accept the manifest."""
    if manifest["apiVersion"] == "keda.sh/v1alpha1":
        fields = {"apiVersion": {}, "kind": {}, "metadata": NAMED, "spec": KEDA[manifest["kind"]]}
        Draft202012Validator(an_object(fields)).validate(manifest)
    else:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_every_manifest_keeps_the_schema_of_its_kind() -> None:
    assert len(write()) > 20
    for name, manifest in write().items():
        try:
            check(manifest)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


def test_a_misspelt_field_is_found() -> None:
    beat, scaler = write()["base/Deployment/beat"], write()["keda/ScaledObject/worker"]
    for manifest in (beat, scaler):
        with pytest.raises(Exception, match="Additional properties are not allowed"):
            check(manifest | {"spec": {**manifest["spec"], "replica": 1}})


@pytest.mark.parametrize("name", pods(write()))
def test_every_pod_is_contained(name: str) -> None:
    pod = pods(write())[name]
    user = pod["securityContext"]
    assert user["runAsNonRoot"] is True
    assert user["runAsUser"] == user["runAsGroup"] == user["fsGroup"] > 0
    assert user["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    for container in containers(pod):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys() & container["resources"]["requests"].keys()
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert mounts.keys() <= {volume["name"] for volume in pod["volumes"]} | {"data"}
        assert mounts["secrets"]["readOnly"] is True
    for container in pod["containers"]:
        if name != "upgrade":
            assert {"livenessProbe", "readinessProbe"} <= container.keys()
    for volume in pod["volumes"]:
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]
    if user["runAsUser"] == 10001:  # ours: a signal reaches the process, and it has the time that it needs
        assert pod["shareProcessNamespace"] is True
        grace = compose.services()[name]["stop_grace_period"]
        assert pod["terminationGracePeriodSeconds"] >= int(grace.removesuffix("s"))


def ours() -> dict[str, manifests.Manifest]:
    return {name: pod for name, pod in pods(write()).items() if pod["securityContext"]["runAsUser"] == 10001}


def test_settings_exist_and_passwords_are_files_of_secrets_that_the_pod_sees() -> None:
    fields = set(Settings.model_fields)
    assert set(ours()) == {"upgrade", "web", "beat", "worker"}
    for overlay in OVERLAYS:
        files = manifests.secret_files(overlay)
        for name, pod in ours().items():
            seen = set().union(*(files[secret] for secret in manifests.list_mounted_secrets(pod)))
            named: set[str] = set()
            for container in containers(pod):
                for key in environment(container):
                    if key.startswith("SHUFFLEBOARD_"):
                        field = key.removeprefix("SHUFFLEBOARD_").lower()
                        assert field in fields or field.removesuffix("_file") in fields, f"{name}: {key}"
                        assert key.endswith("_FILE") or not re.search("URL|KEY|PASSWORD", key), f"{name}: {key}"
                named |= set(re.findall(r"/etc/shuffleboard/secrets/(\w+)", str([environment(container), container])))
            assert named == seen, f"{overlay}: {name}"


def test_every_secret_is_what_the_guide_makes(tmp_path: Path) -> None:
    subprocess.run([ROOT / "docker/make-secrets", tmp_path / "secrets"], check=True, capture_output=True)
    names = {path.name for path in (tmp_path / "secrets").iterdir()}
    guide = (ROOT / "docs/how-to/kubernetes.md").read_text(encoding="utf-8")
    for overlay in OVERLAYS:
        for files in manifests.secret_files(overlay).values():
            assert all(file in names or f"secrets/{file}" in guide for file in files), overlay
    [authentication] = write()["keda/TriggerAuthentication/queue"]["spec"]["secretTargetRef"]
    assert authentication["key"] in manifests.secret_files("cluster")[authentication["name"]]


def command_of(words: list[str]) -> click.Context:
    """Return the command that the words of a command line name, with its options read."""
    command: click.Command = cli
    context: click.Context | None = None
    # A group that runs by itself, such as `worker`, may have options only.
    while isinstance(command, click.Group) and not (
        command.invoke_without_command and (not words or words[0].startswith("-"))
    ):
        name, *words = words
        context = click.Context(command, info_name=name, parent=context)
        subcommand = command.get_command(context, name)
        assert subcommand is not None, f"no command {name}"
        command = subcommand
    return command.make_context(command.name, words, parent=context)


def test_what_pods_run_and_how_they_are_probed_are_commands_that_exist() -> None:
    commands = []
    for name, pod in ours().items():
        for container in containers(pod):
            if "command" not in container:
                commands.append(command_of(container["args"]).info_name)
            else:
                script = " ".join([*container["command"], *container.get("args", ())])
                calls = [words.split() for words in re.findall(r"shuffleboard ([^;&]+)", script)]
                # `db roles` reads a file that is not here.
                commands += [command_of(words).info_name for words in calls if "--passwords" not in words]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                action = container.get(probe, {})
                if "exec" in action:
                    assert action["exec"]["command"] == ["shuffleboard", "alive", name]
                    commands.append(command_of(action["exec"]["command"][1:]).info_name)
                elif action:
                    assert action["httpGet"]["path"] == ("/readyz" if probe == "readinessProbe" else "/healthz")
    assert set(commands) == {"upgrade", "check", "serve", "beat", "worker", "alive"}


def test_what_runs_is_what_runs_on_one_host() -> None:
    for name, pod in ours().items():
        [container] = pod["containers"]
        service = compose.services()[name]
        if "command" in service and "entrypoint" not in service:
            words = [word.replace("/run/", "/etc/shuffleboard/") for word in compose.words(service["command"])]
            assert container["args"] == words
        assert container["image"] == service["image"]
        for wait in pod.get("initContainers", ()):
            assert wait["image"] == container["image"]  # no other has to be fetched
            assert wait["command"] == ["sh", "-ec", "until shuffleboard db check; do sleep 5; done"]
        assert ("initContainers" in pod) == (name != "upgrade")


def test_nothing_is_reached_but_what_a_policy_names() -> None:
    policies = {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in write().values()
        if manifest["kind"] == "NetworkPolicy"
    }
    assert policies.pop("nothing") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert [name for name, policy in policies.items() if "Ingress" in policy["policyTypes"]] == ["web", "servers"]
    [internet] = policies["outside"]["egress"]
    components = policies["outside"]["podSelector"]["matchExpressions"][0]["values"]
    assert components == ["beat", "worker", "worker-gpu"]
    assert all(block["ipBlock"]["except"] for block in internet["to"])
    # Each overlay sets the servers' addresses.
    for overlay in OVERLAYS:
        narrowed = {patch["target"]["name"] for patch in manifests.kustomization(overlay)["patches"]}
        assert {"database", "broker"} <= narrowed


# With Kustomize itself


@pytest.fixture(scope="module")
def tools() -> Path:
    """Install kubectl and checkov outside the tests' own environment; return the folder."""
    subprocess.run(["make", "build/kubernetes/.installed"], cwd=ROOT, check=True, capture_output=True)
    return ROOT / "build" / "kubernetes" / "bin"


@pytest.fixture(scope="module")
def rendered(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, manifests.Manifest]]:
    """Return both overlays by Kustomize, with secrets as in the guide, and workers on slices of GPUs."""
    folder = tmp_path_factory.mktemp("kubernetes") / "kubernetes"
    shutil.copytree(KUBERNETES, folder, ignore=shutil.ignore_patterns("*secrets"))
    for overlay in OVERLAYS:
        secrets = folder / overlay / "secrets"
        subprocess.run([ROOT / "docker/make-secrets", secrets], check=True, capture_output=True)
        for name in ("secret_key", "scaler_url"):
            (secrets / name).write_text("0" * 64)
    (folder / "slices").mkdir()
    (folder / "slices" / "kustomization.yaml").write_text("resources: [../gpu]\ncomponents: [../mig]\n")
    return {overlay: manifests.render(tools / "kubectl", folder / overlay) for overlay in (*OVERLAYS, "slices")}


@pytest.mark.long
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_kustomize_makes_is_valid_and_whole(
    rendered: dict[str, dict[str, manifests.Manifest]], overlay: str
) -> None:
    objects = rendered[overlay]
    for manifest in objects.values():
        check(manifest)
        assert manifest["kind"] == "Namespace" or manifest["metadata"]["namespace"] == "shuffleboard"
    # Each secret and each file of settings that a pod names exists, under the name with its digest.
    for pod in pods(objects).values():
        assert {f"Secret/{name}" for name in manifests.list_mounted_secrets(pod)} <= objects.keys()
        for container in containers(pod):
            for source in container.get("envFrom", ()):
                assert f"ConfigMap/{source['configMapRef']['name']}" in objects
    for name, policy in objects.items():
        if name in ("NetworkPolicy/database", "NetworkPolicy/broker"):
            assert policy["spec"]["egress"][0]["to"]


@pytest.mark.long
def test_workers_on_gpus_differ_in_what_a_gpu_needs(rendered: dict[str, dict[str, manifests.Manifest]]) -> None:
    objects = rendered["cluster"]
    sets = [objects["StatefulSet/worker"]["spec"], objects["StatefulSet/worker-gpu"]["spec"]]
    cpu, gpu = ({**one["template"]["spec"]["containers"][0]} for one in sets)
    assert gpu.pop("args") == ["worker", "--device", "cuda:0", "--queues", "gpu"]
    resources = gpu.pop("resources")
    assert resources["limits"]["nvidia.com/gpu"] == 1
    # Eight billion parameters in float32 pass through the host's memory.
    assert all(int(one["memory"].removesuffix("Gi")) * 2**30 > 1.25 * 4 * 8e9 for one in resources.values())
    [sliced] = rendered["slices"]["StatefulSet/worker-gpu"]["spec"]["template"]["spec"]["containers"]
    for amounts in resources.values():
        amounts["nvidia.com/mig-3g.40gb"] = amounts.pop("nvidia.com/gpu")
    assert sliced["resources"] == resources
    for name in ("args", "resources", "image", "env"):
        cpu.pop(name)
        gpu.pop(name, None)
    assert gpu == cpu
    for one, component in zip(sets, ("worker", "worker-gpu"), strict=True):
        assert "replicas" not in one  # KEDA decides
        labels = one["template"]["metadata"]["labels"]
        [spread] = one["template"]["spec"]["topologySpreadConstraints"]
        assert labels["app.kubernetes.io/component"] == component
        assert spread["labelSelector"]["matchLabels"] == one["selector"]["matchLabels"] == labels
        scaled = objects[f"ScaledObject/{component}"]["spec"]
        assert scaled["scaleTargetRef"]["name"] == component
    images = {one["image"] for pod in pods(objects).values() for one in containers(pod)}
    assert {re.sub("@sha256:0{64}$", "", image) for image in images} == {
        f"registry.example.org/shuffleboard-{name}" for name in ("web", "worker", "worker-cuda")
    }


@pytest.mark.long
def test_checkov_finds_only_what_trying_it_out_excuses(
    rendered: dict[str, dict[str, manifests.Manifest]], tools: Path, tmp_path: Path
) -> None:
    failures = {}
    for overlay in OVERLAYS:
        path = tmp_path / f"{overlay}.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*rendered[overlay].values()]}))
        done = subprocess.run(
            [tools / "checkov", "--framework", "kubernetes", "--file", path, "--output", "json", "--skip-download"],
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        report = json.loads(done.stdout)
        assert report["summary"]["passed"] > 300
        failures[overlay] = {failed_check["check_id"] for failed_check in report["results"]["failed_checks"]}
    # Images by tag, and PostgreSQL and Redis as the user of their images, only in the overlay without lasting data.
    assert failures == {"cluster": set(), "try": {"CKV_K8S_14", "CKV_K8S_15", "CKV_K8S_40", "CKV_K8S_43"}}
