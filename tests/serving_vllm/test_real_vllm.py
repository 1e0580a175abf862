"""With vLLM itself: `EVIGRAPH_TEST_VLLM_PYTHON=.venv-vllm/bin/python pytest -m vllm tests/serving_vllm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.backends import connect
from serving.protocol.errors import ModelError
from serving.protocol.model_name import parse_model_name
from serving.vllm_server.find import Installation
from serving.vllm_server.server import free_port, start_server
from serving.vllm_server.spec import plan_server
from tests.stand_in_vllm import is_running

pytestmark = pytest.mark.vllm


def members(group: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and is_running(int(folder.name)):
            found.append(int(folder.name))
    return found


def test_the_small_model_is_served_and_every_process_ends(installation: Installation) -> None:
    with start_server(plan_server(installation, "smollm2-135m", free_port()), lambda _: None) as server:
        assert connect(parse_model_name(server.model_string)).context_length == 8192
        assert len(members(server.group)) > 1
    assert members(server.group) == []


def test_its_own_words_are_quoted_when_it_cannot_start(installation: Installation) -> None:
    spec = plan_server(installation, "smollm2-135m", free_port(), max_model_len=100_000)
    with pytest.raises(ModelError, match=r"User-specified max_model_len \(100000\) is greater than"):
        start_server(spec, lambda _: None)


def test_an_argument_that_it_does_not_know_is_named(installation: Installation) -> None:
    spec = plan_server(installation, "smollm2-135m", free_port(), extra=["--no-such-flag"])
    with pytest.raises(ModelError, match="unrecognized arguments: --no-such-flag"):
        start_server(spec, lambda _: None)
