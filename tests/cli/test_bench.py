"""Each benchmark that needs no live server, as small as it goes: no figure is looked at, only its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.measuring.bench import _print
from evals.bench.benchmark import Part, Result
from tests.evigraph import evigraph


@pytest.mark.parametrize("name", ["overhead", "latency"])
def test_a_ratio_follows_from_its_printed_parts(tmp_path: Path, name: str) -> None:
    given = evigraph("bench", name, "--tiny", "--json", folder=tmp_path).summary
    parts = given["numerator"]["value"] / given["denominator"]["value"]
    assert given["ratio"] == pytest.approx(parts, rel=0.01)
    assert given["spread"]["min"] <= given["ratio"] <= given["spread"]["max"]
    assert given["details"]["requests"] == 12


def test_memory_growth_follows_from_its_printed_parts(tmp_path: Path) -> None:
    given = evigraph("bench", "memory", "--tiny", "--json", folder=tmp_path).summary
    assert [reading["cases"] for reading in given["details"]["readings"]] == [2, 4, 6]
    difference = given["numerator"]["value"] - given["denominator"]["value"]
    assert given["growth_mb"] == pytest.approx(difference, abs=0.001)


def test_without_json_a_table_names_both_sides(tmp_path: Path) -> None:
    ended = evigraph("bench", "latency", "--tiny", folder=tmp_path)
    assert ended.code == 0
    assert "ideal schedule" in ended.out
    assert "batch run, first request to last reply" in ended.out


def test_the_list_names_every_benchmark(tmp_path: Path) -> None:
    listed = evigraph("bench", "--list", "--json", folder=tmp_path).summary["benchmarks"]
    assert set(listed) == {
        "overhead",
        "latency",
        "ray",
        "saturation",
        "naive",
        "memory",
        "fusion",
        "embedded",
        "verification",
    }


@pytest.mark.slow
@pytest.mark.parametrize("reply", ["token", "json"])
def test_verification_measures_both_forms_of_a_reply(tmp_path: Path, reply: str) -> None:
    options = ("--tiny", "--reply", reply, "--model", "scripted:auto")
    given = evigraph("bench", "verification", *options, "--json", folder=tmp_path).summary
    assert given["details"]["reply"] == reply
    assert given["details"]["sets"]["unanswerable"]["model"].keys() == {
        "auc",
        "auc_by_kind",
        "right_marked",
        "caught",
    }


@pytest.mark.slow
def test_a_reply_without_a_label_is_counted_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_text('{"role": "verify", "reply": "I cannot tell."}\n', "utf-8")
    options = ("--tiny", "--reply", "json", "--model", "scripted:replies.jsonl")
    details = evigraph("bench", "verification", *options, "--json", folder=tmp_path).summary["details"]
    assert details["unusable_replies"] == details["statements"] > 0
    assert details["sets"]["invented"]["model"]["auc"] == 0.5


def test_an_unknown_form_of_a_reply_is_refused(tmp_path: Path) -> None:
    ended = evigraph("bench", "verification", "--reply", "word", "--model", "scripted:auto", folder=tmp_path)
    assert (ended.code, "token, json" in ended.err) == (2, True)


def test_figures_and_rows_are_printed_in_place_of_details(capsys: pytest.CaptureFixture[str]) -> None:
    sides = Part("one", "s", (2.0,)), Part("other", "s", (1.0,))
    rows = [("set", "auc"), ("right", "0.9")]
    _print(Result("fusion", *sides, details={"hidden": 1}, figures={"gain_of_it": 0.25}, rows=rows))
    printed = " ".join(capsys.readouterr().out.split())
    assert "ratio, the first / the second 2.000 gain of it 0.250 set auc right 0.9" in printed
    assert "hidden" not in printed
