"""Tables of citation counts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cases.documents import read_citations
from storage.errors import InputError


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", '{"11": 3, "12": 0}'),
        ("c.json", '\ufeff{"11": 3, "12": 0}'),
        ("c.csv", "pmid,citations\n11,3\n12,0\n"),
        ("c.csv", '"11","3"\n\n12 , 0'),
        ("c.tsv", "\ufeff11\t3\n12\t0\n11\t9\n"),
    ],
)
def test_tables(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    table = read_citations(path)
    assert (table.count("11"), table.count("12"), table.count("13"), len(table)) == (3, 0, None, 2)


def test_a_packed_table(tmp_path: Path) -> None:
    path = tmp_path / "c.json.gz"
    path.write_bytes(gzip.compress(b'{"11": 3}'))
    assert read_citations(path).count("11") == 3


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("c.json", '{"11": "3"}', "'11': '3' is not a count"),
        ("c.json", '{"11": -1}', "'11': -1 is not a count"),
        ("c.json", "[3]", "not a JSON object"),
        ("c.json", '{"11": 3', "line 1, column"),
        ("c.csv", "pmid,citations\n11,3\n12,many\n", "line 3: '12,many' is not an id with a count"),
        ("c.csv", "pmid,citations\n", "no citation count in it"),
        ("c.csv", "11,99999999999\n", "a count above 2,147,483,647"),
    ],
)
def test_a_faulty_table_is_one_line(tmp_path: Path, name: str, content: str, fault: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_citations(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert fault in str(caught.value)


def test_a_cut_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.csv.gz"
    path.write_bytes(gzip.compress(b"11,3\n" * 1000)[:-12])
    with pytest.raises(InputError, match="the file is cut off"):
        read_citations(path)
