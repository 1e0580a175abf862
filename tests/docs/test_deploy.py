"""Files of `deploy/`, as far as they can be looked at without what runs them."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

from tests.evigraph import program

ROOT = Path(__file__).parents[2]
USER = 1000
"""Account of the image, which pods run under."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_image_has_every_package_and_nothing_of_users() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert "*" in lines
    assert kept == packages | {"LICENSE", "README.md", "pyproject.toml"}


def test_compose_names_what_is_there() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    version, vllm = PROJECT["project"]["version"], PROJECT["project"]["optional-dependencies"]["vllm"][0]
    assert compose["services"]["evigraph"]["image"] == f"evigraph:{version}"
    assert compose["services"]["vllm"]["image"] == f"vllm/vllm-openai:v{vllm.partition('==')[2]}"
    build = compose["services"]["evigraph"]["build"]
    assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).is_file()


def test_the_image_has_a_python_that_evigraph_takes_and_the_user_of_the_jobs() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    versions = [tuple(map(int, one)) for one in re.findall(r"^FROM python:(\d+)\.(\d+)", text, re.MULTILINE)]
    assert versions and min(versions) >= (3, 11)
    assert f"USER {USER}\n" in text and f"--uid {USER} " in text
    for job in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "job.yaml").read_text()):
        pod = job["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == USER
        assert pod["containers"][0]["image"] == f"evigraph:{PROJECT['project']['version']}"


RAY_CLUSTER = {
    "": {"headGroupSpec", "workerGroupSpecs", "rayVersion"},
    "head": {"rayStartParams", "template"},
    "workers": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}
"""Fields that KubeRay's types have (`raycluster_types.go` of ray.io/v1), of those the ones that are used."""


def test_the_ray_cluster_has_the_fields_of_kuberay_and_pods_of_kubernetes() -> None:
    from kubernetes.client import V1PodTemplateSpec

    manifest = yaml.safe_load((ROOT / "deploy" / "raycluster.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayCluster")
    spec = manifest["spec"]
    (workers,) = spec["workerGroupSpecs"]
    head = spec["headGroupSpec"]
    assert (set(spec), set(head), set(workers)) == tuple(RAY_CLUSTER.values())
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    for group in (head, workers):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        template = group["template"]
        # A field that the API does not have is not there afterwards.
        known = V1PodTemplateSpec.model_validate(template).model_dump(by_alias=True, exclude_none=True)
        assert known == template
        (container,) = template["spec"]["containers"]
        assert container["image"] == f"evigraph:{PROJECT['project']['version']}"
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
        assert template["spec"]["securityContext"]["runAsUser"] == USER
    # What is on the head must not be taken for what runs cases.
    assert head["rayStartParams"]["num-cpus"] == "0"


def test_the_dockerfile_lints() -> None:
    subprocess.run([program("hadolint"), ROOT / "deploy" / "Dockerfile"], check=True)
