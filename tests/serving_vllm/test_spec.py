"""The command line that a start is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.protocol.errors import ModelError
from serving.vllm_server.find import Installation
from serving.vllm_server.recipes import load_serve_recipe
from serving.vllm_server.spec import ServeSpec, plan_server
from weights.registry import is_ready, model_dir

CPU = Installation(Path("/cpu/python"), "cpu")
GPU = Installation(Path("/gpu/python"), "gpu")
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


@pytest.fixture(autouse=True)
def no_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "hf" / "hub"


def value(spec: ServeSpec, flag: str) -> str:
    assert spec.command.count(flag) == 1
    return spec.command[spec.command.index(flag) + 1]


def test_the_cpu_build_gets_what_a_cpu_needs(model: Path) -> None:
    spec = plan_server(CPU, str(model), 8000)
    assert (value(spec, "--dtype"), "--enforce-eager" in spec.command) == ("bfloat16", True)
    assert spec.environment["VLLM_CPU_KVCACHE_SPACE"] == "2"


def test_a_folder_needs_no_hub(model: Path) -> None:
    spec = plan_server(GPU, str(model), 8000)
    assert spec.environment["HF_HUB_OFFLINE"] == "1"
    assert (value(spec, "--model"), spec.name, spec.notes) == (str(model), "tiny", ())


@pytest.mark.skipif(not is_ready("smollm2-135m"), reason="needs `evigraph models pull`")
def test_a_registered_name_is_its_weights_under_its_name() -> None:
    spec = plan_server(CPU, "smollm2-135m", 8000)
    assert value(spec, "--model") == str(model_dir("smollm2-135m"))
    assert value(spec, "--served-model-name") == "smollm2-135m"
    assert value(spec, "--max-model-len") == "8192"


def test_a_download_is_announced() -> None:
    spec = plan_server(GPU, LLAMA, 8000, gpus=4)
    assert any("vLLM downloads them now" in note for note in spec.notes)
    assert "HF_HUB_OFFLINE" not in spec.environment


def test_weights_in_the_hubs_cache_are_no_download(no_hub_cache: Path) -> None:
    snapshot = no_hub_cache / "models--meta-llama--Llama-3.3-70B-Instruct" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    assert not any("downloads" in note for note in plan_server(GPU, LLAMA, 8000, gpus=4).notes)


def test_without_the_hub_a_download_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set: name a folder that holds them"):
        plan_server(GPU, LLAMA, 8000)


@pytest.mark.parametrize("name", ["smollm2", "no such", "/no/folder", "a/b/c"])
def test_what_is_no_model_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"cannot serve .*: no such folder, and no hub id"):
        plan_server(CPU, name, 8000)


def test_the_fitting_recipe_is_taken_and_named() -> None:
    spec = plan_server(GPU, LLAMA, 8000, gpus=4)
    assert value(spec, "--tensor-parallel-size") == "4"
    assert spec.notes[0].startswith("serve recipe llama-3.3-70b-4gpu: ")


def test_without_a_fitting_recipe_the_others_are_named() -> None:
    spec = plan_server(GPU, LLAMA, 8000, gpus=3)
    assert "there are: llama-3.3-70b-2gpu, llama-3.3-70b-4gpu, llama-3.3-70b-8gpu" in spec.notes[0]
    assert value(spec, "--tensor-parallel-size") == "3"


def test_options_win_over_the_recipe_and_arguments_come_last() -> None:
    recipe = load_serve_recipe("llama-3.3-70b-4gpu")
    spec = plan_server(GPU, None, 8000, recipe=recipe, gpus=8, max_model_len=5, extra=["--seed", "1"])
    assert (value(spec, "--tensor-parallel-size"), value(spec, "--max-model-len")) == ("8", "5")
    assert value(spec, "--model") == LLAMA
    assert spec.command[-2:] == ["--seed", "1"]


def test_a_recipe_for_another_model_is_noted() -> None:
    spec = plan_server(GPU, LLAMA, 8000, recipe=load_serve_recipe("llama-3.3-70b-fp8-1gpu"))
    assert any("is made for RedHatAI/" in note for note in spec.notes)


def test_gpus_and_recipes_for_them_are_refused_on_the_cpu_build(model: Path) -> None:
    with pytest.raises(ModelError, match="has vLLM's CPU build"):
        plan_server(CPU, str(model), 8000, gpus=1)
    with pytest.raises(ModelError, match="mixtral-8x7b-2gpu is for GPUs"):
        plan_server(CPU, None, 8000, recipe=load_serve_recipe("mixtral-8x7b-2gpu"))


@pytest.mark.parametrize("argument", ["--port", "--port=1", "--served_model_name", "--host", "--model"])
def test_what_evigraph_must_know_is_not_for_vllm_alone(model: Path, argument: str) -> None:
    with pytest.raises(ModelError, match="to evigraph, not --"):
        plan_server(CPU, str(model), 8000, extra=[argument, "1"])


def test_an_open_server_is_noted(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = plan_server(CPU, str(model), 8000, host="0.0.0.0")  # noqa: S104
    assert any("anyone who can reach 0.0.0.0" in note for note in spec.notes)
    monkeypatch.setenv("VLLM_API_KEY", "a-key")
    assert not plan_server(CPU, str(model), 8000, host="0.0.0.0").notes  # noqa: S104


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/v1"),
        ("0.0.0.0", "http://127.0.0.1:8000/v1"),  # noqa: S104
        ("::", "http://[::1]:8000/v1"),
        ("gpu-1", "http://gpu-1:8000/v1"),
    ],
)
def test_the_address_is_how_this_machine_reaches_it(model: Path, host: str, url: str) -> None:
    assert plan_server(CPU, str(model), 8000, host=host).base_url == url
