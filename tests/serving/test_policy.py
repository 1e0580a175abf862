from __future__ import annotations

from pathlib import Path

import pytest

from serving.policy import policy
from serving.policy.policy import HeldPolicy, Policy, PolicyError, find_policies, keep_beside, load_policy
from serving.protocol.addresses import is_public


def held(**rules: object) -> HeldPolicy:
    return HeldPolicy(origin="here", sha256="0", rules=Policy.model_validate({"name": "ours", **rules}))


@pytest.mark.parametrize(
    ("host", "rules", "allowed"),
    [
        ("localhost", ["loopback"], True),
        ("127.8.0.1", ["loopback"], True),
        ("::1", ["loopback"], True),
        ("::ffff:127.0.0.1", ["loopback"], True),
        ("10.0.0.1", ["loopback"], False),
        ("127.0.0.1.example.org", ["loopback"], False),
        ("localhost.example.org", ["loopback"], False),
        ("0x7f.1", ["loopback"], True),
        ("2130706433", ["loopback"], True),
        ("0xcb007107", ["private"], False),
        ("0313.0.0161.7", ["private"], False),
        ("3405803783", ["203.0.113.0/24"], True),
        ("203.28935", ["private"], False),
        ("10.1.2.3", ["private"], True),
        ("gpu01", ["private"], True),
        ("gpu01.internal", ["private"], True),
        ("8.8.8.8", ["private"], False),
        ("10.1.2.3", ["10.1.0.0/16"], True),
        ("10.2.2.3", ["10.1.0.0/16"], False),
        ("10.1.2.3.example.org", ["10.1.0.0/16"], False),
        ("10.1.2.3", ["10.1.2.3"], True),
        ("fd00::1", ["fd00::/8"], True),
        ("a.example.org", ["*.example.org"], True),
        ("example.org", ["*.example.org"], False),
        ("a.example.org.evil.net", ["*.example.org"], False),
        ("gpu01", ["GPU01"], True),
        ("127.0.0.1", [], False),
    ],
)
def test_hosts_match_their_rules(host: str, rules: list[str], allowed: bool) -> None:
    assert (held(hosts=rules).fault_of_host(host) == "") is allowed


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("localhost", False),
        ("127.0.0.1", False),
        ("192.168.1.5", False),
        ("fe80::1%eth0", False),
        ("gpu01", False),
        ("gpu01.cluster.local", False),
        ("gpu01.example.org", True),
        ("api.openai.com", True),
        ("8.8.8.8", True),
        ("100.64.0.1", True),
        ("2001:4860::1", True),
        ("0xcb007107", True),
        ("0XCB007107", True),
        ("0313.0.0161.7", True),
        ("3405803783", True),
        ("0x0a.1", False),
        ("0x7f.1", False),
        ("08", True),
        ("0x1.0x2.0x3.0x4.0x5", True),
        ("0xgpu", False),
    ],
)
def test_hosts_outside_of_private_networks_are_known_by_name(host: str, public: bool) -> None:
    assert is_public(host) is public


def test_no_retention_needs_an_agreement_outside_of_private_networks() -> None:
    rules = {"hosts": ["private", "*.example.org"], "zero_retention": True}
    assert held(**rules).fault_of_host("10.0.0.1") == ""
    assert "rule zero_retention: a.example.org" in held(**rules).fault_of_host("a.example.org")
    agreed = held(**rules, zero_retention_hosts=["a.example.org"])
    assert agreed.fault_of_host("a.example.org") == ""
    assert agreed.fault_of_host("b.example.org") != ""


def test_what_is_not_allowed_is_forbidden() -> None:
    strict = held()
    assert strict.fault_of_host("127.0.0.1") == "" != strict.fault_of_host("gpu01")
    for action in ("batches", "export_payloads", "bundle_texts", "view_from_other_hosts"):
        assert f"policy 'ours' (here), rule {action}: " in strict.fault_of(action)
        assert held(**{action: True}).fault_of(action) == ""
    assert strict.fault_of_provider("openai") == ""
    assert "rule providers: openai" in held(providers=["embedded"]).fault_of_provider("openai")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: ours\nhost: [loopback]", "unknown field 'host'; did you mean 'hosts'?"),
        ("hosts: [loopback]", "name: Field required"),
        ("name: ours\nproviders: [opnai]", "unknown provider 'opnai'"),
        ("name: ours\nhosts: ['http://gpu01']", "'http://gpu01' is not a host"),
        ("name: ours\nhosts: [10.0.0.0/99]", "'10.0.0.0/99' is not a host"),
        ("- 1", "it must be a mapping"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(str(path))
    assert str(path) in str(caught.value) and words in str(caught.value) and "\n" not in str(caught.value)


def test_physionet_lets_nothing_out() -> None:
    rules = load_policy("physionet").rules
    assert (rules.hosts, rules.zero_retention) == (("loopback",), True)
    assert not any((rules.batches, rules.export_payloads, rules.bundle_texts, rules.view_from_other_hosts))
    with pytest.raises(PolicyError, match="did you mean 'physionet'"):
        load_policy("phisionet")


def test_a_policy_beside_the_data_comes_before_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, data = tmp_path / "config", tmp_path / "data"
    for folder in (own, data, tmp_path / "other"):
        folder.mkdir()
    monkeypatch.setattr(policy, "user_config_path", lambda _: own)
    assert find_policies([data / "cases.jsonl"]) == ()
    (own / "policy.yaml").write_text("name: own")
    assert [one.rules.name for one in find_policies([data / "cases.jsonl"])] == ["own"]
    (data / "policy.yaml").write_text("name: data")
    found = find_policies([data / "cases.jsonl", data, tmp_path / "other" / "x.xml"])
    assert [one.rules.name for one in found] == ["data"]


def test_a_link_to_data_has_the_policy_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cases.jsonl").touch()
    (tmp_path / "data" / "policy.yaml").write_text("name: data")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "data" / "cases.jsonl")
    assert [one.rules.name for one in find_policies([tmp_path / "link.jsonl"])] == ["data"]


def test_a_policy_that_would_be_passed_over_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PolicyError, match="No such file"):
        find_policies([tmp_path / "cases.jsonl"])
    (tmp_path / "policy.yaml").rename(tmp_path / "policy.yml")
    with pytest.raises(PolicyError, match="rename it"):
        find_policies([tmp_path / "cases.jsonl"])


def test_data_made_of_others_keep_their_policy(tmp_path: Path) -> None:
    keep_beside(tmp_path, [held(hosts=["gpu01"]), held(hosts=["gpu01"])])
    assert find_policies([tmp_path])[0].rules == held(hosts=["gpu01"]).rules
    other = held().model_copy(update={"sha256": "1"})
    with pytest.raises(PolicyError, match="several policies"):
        keep_beside(tmp_path, [held(), other])
