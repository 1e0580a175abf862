"""PubMed's baseline files."""

from __future__ import annotations

import gzip
import resource
from pathlib import Path

import pytest

from cases.documents import Document, Skipped
from cases.formats.pubmed_xml import read_pubmed_xml
from storage.files import Meter

HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle//EN" "https://127.0.0.1:9/pubmed.dtd">
<PubmedArticleSet>
"""
ARTICLE = """<PubmedArticle>
<MedlineCitation Status="MEDLINE"><PMID Version="1">{pmid}</PMID>
<Article><Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue><Title>Wound Notes</Title></Journal>
<ArticleTitle>Lumerin in <i>chronic</i>
 wounds &amp; ulcers</ArticleTitle>
<Abstract><AbstractText Label="BACKGROUND">We <b>asked</b>.</AbstractText>
<AbstractText Label="UNLABELLED">It healed.</AbstractText><AbstractText/></Abstract>
<PublicationTypeList><PublicationType UI="D1">Journal Article</PublicationType>
<PublicationType UI="D2">Randomized Controlled Trial</PublicationType></PublicationTypeList>
</Article></MedlineCitation>
<PubmedData>
<ArticleIdList><ArticleId IdType="pubmed">999</ArticleId></ArticleIdList></PubmedData>
</PubmedArticle>
"""
YEAR = "<Year>2003</Year><Month>Feb</Month>"


def article(pmid: object = 1, date: str = YEAR) -> str:
    return ARTICLE.format(pmid=pmid, date=date)


def read(path: Path, start: int = 0) -> list[Document | Skipped]:
    return list(read_pubmed_xml(path, start, Meter()))


def written(path: Path, *articles: str, head: str = HEAD) -> Path:
    content = (head + "".join(articles) + "</PubmedArticleSet>\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["p.xml", "p.xml.gz"])
def test_fields_of_an_article(tmp_path: Path, name: str) -> None:
    expected = Document(
        id="1",
        title="Lumerin in chronic wounds & ulcers",
        text="BACKGROUND: We asked. It healed.",
        year=2003,
        study_types=("Journal Article", "Randomized Controlled Trial"),
        source="Wound Notes",
    )
    assert read(written(tmp_path / name, article())) == [expected]


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>", 1998),
        ("<MedlineDate>Winter</MedlineDate>", None),
        ("", None),
    ],
)
def test_dates_in_words(tmp_path: Path, date: str, year: int | None) -> None:
    (found,) = read(written(tmp_path / "p.xml", article(date=date)))
    assert isinstance(found, Document)
    assert found.year == year


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (article(2).replace("</Article>", ""), "tag mismatch"),
        (article(2).replace("</PubmedArticle>", ""), "has no </PubmedArticle>"),
        (article(2).replace("&amp;", "&nbsp;"), "Entity 'nbsp' not defined"),
        (article(2).replace("wounds", "wo\x01unds"), "PCDATA invalid Char"),
        (article(""), "no <PMID>"),
    ],
)
def test_a_bad_record_takes_no_other_with_it(tmp_path: Path, bad: str, fault: str) -> None:
    path = written(tmp_path / "p.xml", article(1), bad, article(3))
    first, skipped, last = read(path)
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert isinstance(skipped, Skipped)
    assert fault in skipped.fault
    assert skipped.place == f"{path}: record 2, line 17"


def test_a_record_that_never_ends_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cases.formats.pubmed_xml.MAX_LINE_BYTES", 1 << 20)
    endless = article(1).partition("</PubmedArticle>")[0].replace("It healed.", "It healed.\n" * 300_000)
    path = written(tmp_path / "p.xml", endless, article(2).rpartition("</PubmedArticle>")[0])
    assert read(path) == [
        Skipped(f"{path}: record {number}, line {line}", "has no </PubmedArticle>", "unreadable")
        for number, line in ((1, 4), (2, 300_016))
    ]


def test_a_record_without_title_and_abstract_is_empty(tmp_path: Path) -> None:
    bare = "<PubmedArticle><MedlineCitation><PMID>8</PMID></MedlineCitation></PubmedArticle>"
    (found,) = read(written(tmp_path / "p.xml", bare))
    assert isinstance(found, Skipped)
    assert (found.reason, found.place) == ("empty", f"{tmp_path / 'p.xml'}: record 1, line 4, PMID 8")


def test_declared_entities_are_not_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    declared = f' [<!ENTITY nbsp SYSTEM "{secret.as_uri()}">]>'
    head = HEAD.replace(">\n<PubmedArticleSet>", f"{declared}\n<PubmedArticleSet>")
    (found,) = read(written(tmp_path / "p.xml", article().replace("&amp;", "&nbsp;"), head=head))
    assert isinstance(found, Skipped)


def test_reading_goes_on_after_so_many_records(tmp_path: Path) -> None:
    path = written(tmp_path / "p.xml", article(1), article(""), article(3))
    for start in range(4):
        assert read(path, start) == read(path)[start:]


def test_a_cut_file_keeps_the_records_before(tmp_path: Path) -> None:
    path = written(tmp_path / "p.xml.gz", *(article(number) for number in range(2000)))
    path.write_bytes(path.read_bytes()[:-200])
    *before, end = read(path)
    assert 100 < len(before) < 2000
    assert all(isinstance(one, Document) for one in before)
    assert isinstance(end, Skipped)
    assert (end.reason, end.fault) == ("damaged file", "the file is cut off")
    assert read(path, len(before)) == [end]
    assert read(path, len(before) + 1) == []


def test_a_file_of_something_else_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text("<annotations/>")
    assert read(path) == [Skipped(str(path), "no <PubmedArticle> in it", "unreadable")]


def test_memory_stays_flat(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    with path.open("w") as file:
        file.write(HEAD)
        for number in range(600):
            file.write(article(number).replace("It healed.", "It healed. " * 5000))
    documents = read_pubmed_xml(path, 0, Meter())
    next(documents)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in documents) == 599
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < path.stat().st_size / 4
