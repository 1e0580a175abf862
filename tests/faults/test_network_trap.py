"""In a network whose every address is a trap, nothing leaves by a proxy that the user did not allow."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.evigraph import ROOT
from tests.faults.network_trap import PROXIES

pytestmark = pytest.mark.scale


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    tools = all(map(shutil.which, ("ip", "mount", "unshare")))
    if not tools or subprocess.run(shlex.split("unshare --net --mount true"), capture_output=True).returncode:
        pytest.skip("a separate network needs Linux, root, iproute2 and util-linux")
    apart = shlex.split("unshare --net --mount --fork --kill-child")
    folder = tmp_path_factory.mktemp("trap")
    command = [*apart, sys.executable, "-m", "tests.faults.network_trap", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("proxy", PROXIES)
def test_no_text_leaves(commands: list[dict[str, Any]], proxy: str) -> None:
    made = [one for one in commands if one["proxy"] == proxy]
    assert len(made) > 20
    assert [(one["words"], one["outside"]) for one in made if one["outside"] or one["texts"]] == []


@pytest.mark.parametrize("proxy", PROXIES)
def test_servers_on_loopback_are_asked_all_the_same(commands: list[dict[str, Any]], proxy: str) -> None:
    made = [one for one in commands if one["proxy"] == proxy and one["kind"] == "allowed"]
    assert [(one["words"], one["err"]) for one in made if one["code"] != 0] == []
    assert sum(one["asked"] > 0 for one in made) >= 10


@pytest.mark.parametrize(("proxy", "url"), PROXIES.items())
def test_a_refused_proxy_is_one_line(commands: list[dict[str, Any]], proxy: str, url: str) -> None:
    host = url.removeprefix("http://").removesuffix(":8080")
    for one in commands:
        if (one["proxy"], one["kind"]) == (proxy, "refused"):
            lines = [line for line in one["err"].splitlines() if line.startswith("evigraph: ")]
            assert one["code"] == 2 and len(lines) == 1, one
            assert f"rule hosts: {host} may see no text of a case" in lines[0]
            assert "it is the proxy of gpu01" in lines[0]
