"""Tests that entries of RSS and Atom feeds become items. See docs/design/imports-n8n.md#node-types."""

import json

import pytest

from steward.model.run import RunStatus
from steward.steps.n8n.nodes import feeds
from steward.steps.n8n.nodes.feeds import MAX_ENTRIES, entries_in
from steward.steps.workflow.step_types import ItemFailed
from tests.imports.exports import automated, chain, node
from tests.imports.test_requests import ADDRESS, on_one_engine, pages
from tests.runs.shop import Shop

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:dc="d" xmlns:content="c"><channel><title>Shop</title>
<item><title>Tea</title><link>https://a.example/tea</link><dc:creator>Jo</dc:creator>
<pubDate>Tue, 02 Jan 2024 10:00:00 GMT</pubDate><guid isPermaLink="false">g1</guid>
<description>&lt;p&gt;Hot &amp;amp; fresh&lt;/p&gt;</description>
<content:encoded><![CDATA[<p>long</p>]]></content:encoded>
<category>news</category>
<enclosure url="https://a.example/t.mp3" type="audio/mpeg"/><x:stock>3</x:stock></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Shop</title>
<entry><title type="html">Tea</title><link rel="alternate" href="https://a.example/tea"/><id>urn:1</id>
<published>2024-01-02T11:00:00+01:00</published><author><name>Jo</name></author>
<content type="html">&lt;b&gt;Hot&lt;/b&gt;</content></entry></feed>"""


def test_an_entry_of_rss_has_the_fields_of_rss_parser() -> None:
    """Returns the fields that the library rss-parser gives, with text without tags and an ISO date."""
    assert entries_in(RSS, ["x:stock"]) == [
        {
            "creator": "Jo",
            "title": "Tea",
            "link": "https://a.example/tea",
            "pubDate": "Tue, 02 Jan 2024 10:00:00 GMT",
            "content:encoded": "<p>long</p>",
            "content:encodedSnippet": "long",
            "enclosure": {"url": "https://a.example/t.mp3", "type": "audio/mpeg"},
            "dc:creator": "Jo",
            "x:stock": "3",
            "content": "<p>Hot &amp; fresh</p>",
            "contentSnippet": "Hot & fresh",
            "guid": "g1",
            "categories": ["news"],
            "isoDate": "2024-01-02T10:00:00.000Z",
        }
    ]


def test_an_entry_of_atom_has_its_fields() -> None:
    """Returns the published date and the alternate link."""
    assert entries_in(ATOM) == [
        {
            "title": "Tea",
            "link": "https://a.example/tea",
            "pubDate": "2024-01-02T10:00:00.000Z",
            "author": "Jo",
            "content": "<b>Hot</b>",
            "contentSnippet": "Hot",
            "id": "urn:1",
            "isoDate": "2024-01-02T10:00:00.000Z",
        }
    ]


PODCAST = """<rss version="2.0" xmlns:itunes="i"><channel><item><title>E</title>
<itunes:author>Jo</itunes:author>
<itunes:image href="https://a.example/e.png"/><itunes:duration>12:30</itunes:duration></item></channel></rss>"""
RDF = """<rdf:RDF xmlns:rdf="r"><channel><item><title>inside</title></item></channel>
<item rdf:about="https://a.example/1"><title>T</title></item></rdf:RDF>"""
XHTML = """<feed><entry><content type="xhtml"><div xmlns="h">Hot <b>tea</b><br/></div></content>
<summary>short</summary></entry></feed>"""


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (
            PODCAST,
            {
                "title": "E",
                "itunes": {"author": "Jo", "duration": "12:30", "image": "https://a.example/e.png"},
            },
        ),
        (PODCAST.replace(' xmlns:itunes="i"', ""), {"title": "E"}),
        (RDF, {"title": "T", "rdf:about": "https://a.example/1"}),
        (
            XHTML,
            {
                "content": '<div type="xhtml"><div xmlns="h">Hot <b>tea</b><br/></div></div>',
                "contentSnippet": "Hot tea",
                "summary": "short",
            },
        ),
    ],
)
def test_special_feeds_have_the_fields_of_rss_parser(text: str, entry: dict[str, object]) -> None:
    """Returns the data of podcasts, the address of an RDF entry, and XHTML as text."""
    assert entries_in(text) == [entry]


@pytest.mark.parametrize(
    "text",
    ["<rss><channel><item/></channel></rss>", '<rss version="1.5"><channel/></rss>', '<rss version="2.0"/>'],
)
def test_rss_of_another_version_or_without_channel_fails_the_item(text: str) -> None:
    """Raises ItemFailed where rss-parser recognizes no feed."""
    with pytest.raises(ItemFailed):
        entries_in(text)


@pytest.mark.parametrize(
    "text", ["", "<html/>", "{}", '<!DOCTYPE rss [<!ENTITY a "b">]><rss>&a;</rss>', "<rss><channel>"]
)
def test_text_that_is_not_a_feed_fails_the_item(text: str) -> None:
    """Raises ItemFailed on text that is not a feed, without expanding its entities."""
    with pytest.raises(ItemFailed):
        entries_in(text)


def test_a_feed_is_read_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads as many entries as the limit and fails on one more."""
    assert MAX_ENTRIES == 10_000
    monkeypatch.setattr(feeds, "MAX_ENTRIES", 2)
    entry = "<item><title>t</title></item>"
    assert len(entries_in(f'<rss version="2.0"><channel>{entry * 2}</channel></rss>')) == 2
    with pytest.raises(ItemFailed, match="more than 2 entries"):
        entries_in(f'<rss version="2.0"><channel>{entry * 3}</channel></rss>')


@on_one_engine
async def test_a_run_reads_a_feed(shop: Shop) -> None:
    """Counts the entry that the step read; an error status fails the run."""
    pages(shop, RSS)
    automation = await automated(shop, chain(node("Feed", "rssFeedRead", 1.2, {"url": ADDRESS})))
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, json.dumps(await shop.steps(run), default=str)
    assert (await shop.steps(run))[-1]["counts"]["read"] == 1
    pages(shop, "gone", status=404)
    assert (await shop.run_and_drain(automation)).status is RunStatus.FAILED
