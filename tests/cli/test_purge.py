"""`evigraph purge`, as a user runs it; `tests/viewer/test_leaks.py` looks for texts that are left."""

from __future__ import annotations

from pathlib import Path

from tests.evigraph import evigraph, write_cases, write_recipe


def test_a_dry_run_changes_nothing_and_a_purge_lists_what_it_deleted(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 2)
    started = ("run", "tamu", "cases.jsonl", "--recipe", write_recipe(tmp_path), "--model", "scripted:auto")
    assert evigraph(*started, "--out", "run", folder=tmp_path).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    planned = evigraph("purge", "run", "k1", "--dry-run", "--json", folder=tmp_path)
    assert (planned.code, planned.summary["cases"]) == (0, ["k1"])
    sizes = {str(path.relative_to(tmp_path / "run")): len(content) for path, content in before.items()}
    assert planned.summary["files"] == sizes
    shown = evigraph("purge", "run", "--dry-run", folder=tmp_path)
    assert "texts of 2 cases would be removed from these files:" in shown.out
    assert f"{sizes['cases.jsonl']:,}  cases.jsonl" in shown.out
    assert "no case 'k9'" in evigraph("purge", "run", "k9", folder=tmp_path).line
    assert {path: path.read_bytes() for path in before} == before
    assert evigraph("export", "run", "--inspect", folder=tmp_path).code == 0
    purged = evigraph("purge", "run", "--yes", folder=tmp_path)
    assert "purged    2 cases: " in purged.out and "results of 2 cases" in purged.out
    (deleted,) = (line for line in purged.out.splitlines() if line.startswith("deleted "))
    assert deleted == "deleted   frames"
    assert "deleted " not in evigraph("purge", "run", "--yes", folder=tmp_path).out
