"""markdown: text with marks into HTML and back (imports 6); each paired with its own item."""

import html
import re
from collections.abc import Iterable
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from steward.steps import js_values as js
from steward.steps.items import Item
from steward.steps.kinds import Asked, Call, ItemFailed, Params, Problem, Result, StepType, each, same

LARGEST = 1024 * 1024
DEEPEST = 60


class Markdown(StepType):
    """Plain marks as the origin reads them when none of its options is set."""

    types = ("markdown",)
    known = frozenset(("mode", "markdown", "html", "destinationKey", "options"))

    def check(self, asked: Asked) -> Iterable[Problem]:
        """Its options change the text in ways that are not carried."""
        options = asked.get("options", {})
        for name in options if isinstance(options, dict) else ():
            words = (
                f"Its option “{str(name)[:60]}” is not carried; the plain form is made. Look at the result."
            )
            yield Problem("warning", "parameter", words)

    async def run(self, call: Call) -> Result:
        """Each item with its text."""
        return each(call, lambda place, item: [_turned(call.params(place), place, item)])


def _turned(params: Params, place: int, item: Item) -> Item:
    to_html = params.text("mode", "htmlToMarkdown") == "markdownToHtml"
    text = params.text("markdown" if to_html else "html")
    if len(text) > LARGEST:
        raise ItemFailed("The text is larger than 1 MiB.")
    into: dict[str, Any] = js.copied(item.json)
    js.put(into, params.text("destinationKey", "data"), to_page(text) if to_html else to_marks(text))
    return Item(into, same(place))


_HEADING = re.compile(r"(#{1,6})[ \t]*(.+?)[ \t]*#*\Z")
_RULE = re.compile(r" {0,2}(?:[*_-][ \t]*){3,}\Z")
_BULLET = re.compile(r" {0,3}([*+-]|\d+\.)[ \t]+(.*)\Z")
_FENCE = re.compile(r"(?:```|~~~)[ \t]*([\w-]*)[ \t]*\Z")


def to_page(text: str) -> str:
    """HTML of a text with marks."""
    return "\n".join(_blocks(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 0))


def _blocks(lines: list[str], depth: int) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
            continue
        taken, block = _block(lines, place, depth)
        found.append(block)
        place += taken
    return found


def _block(lines: list[str], place: int, depth: int) -> tuple[int, str]:
    """The block that begins at a line: how many lines it takes, and its HTML."""
    line = lines[place]
    heading, fence = _HEADING.match(line), _FENCE.match(line.strip())
    if heading:
        level, words = len(heading[1]), heading[2]
        return 1, f'<h{level} id="{_anchor(words)}">{_inline(words)}</h{level}>'
    if fence:
        return _fenced(lines, place, fence[1])
    if _RULE.match(line):
        return 1, "<hr />"
    if place + 1 < len(lines) and re.fullmatch(r"(=+|-+)[ \t]*", lines[place + 1]) and line.strip():
        level = 1 if lines[place + 1].startswith("=") else 2
        return 2, f'<h{level} id="{_anchor(line.strip())}">{_inline(line.strip())}</h{level}>'
    if line.lstrip().startswith(">") and depth < DEEPEST:
        return _quoted(lines, place, depth)
    if _BULLET.match(line) and depth < DEEPEST:
        return _listed(lines, place, depth)
    if line.startswith(("    ", "\t")):
        return _indented(lines, place)
    return _paragraph(lines, place)


def _anchor(words: str) -> str:
    return re.sub(r"[^\w]", "", words).lower()


def _fenced(lines: list[str], place: int, language: str) -> tuple[int, str]:
    end = place + 1
    while end < len(lines) and not _FENCE.match(lines[end].strip()):
        end += 1
    code = html.escape("\n".join(lines[place + 1 : end]), quote=False)
    kind = f' class="{language} language-{language}"' if language else ""
    return end + 1 - place, f"<pre><code{kind}>{code}\n</code></pre>"


def _indented(lines: list[str], place: int) -> tuple[int, str]:
    end = place
    while end < len(lines) and (lines[end].startswith(("    ", "\t")) or not lines[end].strip()):
        end += 1
    code = "\n".join(re.sub(r"\A(?: {4}|\t)", "", line) for line in lines[place:end]).rstrip()
    return end - place, f"<pre><code>{html.escape(code, quote=False)}\n</code></pre>"


def _quoted(lines: list[str], place: int, depth: int) -> tuple[int, str]:
    end = place
    while end < len(lines) and lines[end].strip():
        end += 1
    inside = [re.sub(r"\A[ \t]*>[ \t]?", "", line) for line in lines[place:end]]
    blocks = "\n".join(f"  {block}" for block in _blocks(inside, depth + 1))
    return end - place, f"<blockquote>\n{blocks}\n</blockquote>"


def _listed(lines: list[str], place: int, depth: int) -> tuple[int, str]:
    first = _BULLET.match(lines[place])
    kind = "ol" if first and first[1][0].isdigit() else "ul"
    entries: list[list[str]] = []
    end, loose = place, False
    while end < len(lines):
        bullet = _BULLET.match(lines[end])
        if bullet and (bullet[1][0].isdigit()) == (kind == "ol"):
            loose = loose or (end > place and not lines[end - 1].strip())
            entries.append([bullet[2]])
        elif lines[end].startswith(("    ", "\t", "  ")) and entries:
            entries[-1].append(re.sub(r"\A(?: {1,4}|\t)", "", lines[end]))
        elif not lines[end].strip() and end + 1 < len(lines) and _goes_on(lines[end + 1]):
            if entries:
                entries[-1].append("")
        else:
            break
        end += 1
    made = [f"<li>{_entry(entry, depth, loose=loose)}</li>" for entry in entries]
    return end - place, f"<{kind}>\n" + "\n".join(made) + f"\n</{kind}>"


def _goes_on(line: str) -> bool:
    return bool(_BULLET.match(line)) or line.startswith(("    ", "\t"))


def _entry(lines: list[str], depth: int, *, loose: bool) -> str:
    while lines and not lines[-1].strip():
        lines.pop()
    if loose or len(lines) > 1:
        blocks = _blocks(lines, depth + 1)
        if not loose and blocks and blocks[0].startswith("<p>"):
            blocks[0] = blocks[0].removeprefix("<p>").removesuffix("</p>")
        return "\n".join(blocks)
    return _inline(lines[0]) if lines else ""


def _paragraph(lines: list[str], place: int) -> tuple[int, str]:
    end = place
    while end < len(lines) and lines[end].strip() and (end == place or not _interrupts(lines[end])):
        end += 1
    text = "\n".join(
        line.strip() if not line.endswith("  ") else line.strip() + "  " for line in lines[place:end]
    )
    if re.match(r"</?[a-zA-Z][^>]*>", text):
        return end - place, text
    return end - place, f"<p>{_inline(text.rstrip())}</p>"


def _interrupts(line: str) -> bool:
    return bool(_HEADING.match(line) or _FENCE.match(line.strip()))


_INLINE = (
    (re.compile(r"!\[([^\]]*)\]\(<?([^)\s>]+)>?(?:\s+\"([^\"]*)\")?\)"), r'<img src="\2" alt="\1" />'),
    (re.compile(r"\[([^\]]+)\]\(<?([^)\s>]+)>?\s+\"([^\"]*)\"\)"), r'<a href="\2" title="\3">\1</a>'),
    (re.compile(r"\[([^\]]+)\]\(<?([^)\s>]+)>?\)"), r'<a href="\2">\1</a>'),
    (re.compile(r"<(https?://[^\s>]+)>"), r'<a href="\1">\1</a>'),
    (re.compile(r"(\*\*\*|___)(?=\S)(.+?)(?<=\S)\1", re.DOTALL), r"<strong><em>\2</em></strong>"),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.DOTALL), r"<strong>\2</strong>"),
    (re.compile(r"(\*|_)(?=\S)(.+?)(?<=\S)\1", re.DOTALL), r"<em>\2</em>"),
    (re.compile(r" {2,}\n"), "<br />\n"),
)
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_AMPERSAND = re.compile(r"&(?!#?\w+;)")


def _inline(text: str) -> str:
    kept: list[str] = []

    def aside(found: re.Match[str]) -> str:
        kept.append(f"<code>{html.escape(found[2].strip(), quote=False)}</code>")
        return f"\x00{len(kept) - 1}\x00"

    text = _CODE.sub(aside, text.replace("\x00", ""))
    text = re.sub(r"<(?![a-zA-Z/!])", "&lt;", _AMPERSAND.sub("&amp;", text))
    for pattern, into in _INLINE:
        text = pattern.sub(into, text)
    return re.sub(r"\x00(\d+)\x00", lambda found: kept[int(found[1])], text)


_BLOCK = frozenset(
    ("p", "div", "section", "article", "header", "footer", "main", "body", "html", "table", "tr", "figure")
)
_SKIPPED = frozenset(("script", "style", "head", "noscript", "template", "-comment"))


def to_marks(page: str) -> str:
    """A text with marks of a page."""
    body = LexborHTMLParser(page).body
    if body is None:
        return ""
    text = _children(body, 0, "")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"\n[ \t]+(?=\n)", "\n", text)).strip()


def _children(node: LexborNode, depth: int, pad: str) -> str:
    if depth > DEEPEST:
        return ""
    return "".join(_marks(child, depth + 1, pad) for child in node.iter(include_text=True))


def _marks(node: LexborNode, depth: int, pad: str) -> str:
    tag = node.tag or ""
    if tag == "-text":
        return re.sub(r"\s+", " ", node.text())
    if tag in _SKIPPED:
        return ""
    if tag in ("ul", "ol"):
        return f"\n\n{_entries(node, depth, pad)}\n\n"
    if tag == "pre":
        return f"\n\n```\n{node.text().strip(chr(10))}\n```\n\n"
    inside = _children(node, depth, pad)
    if re.fullmatch(r"h[1-6]", tag):
        return f"\n\n{'#' * int(tag[1])} {inside.strip()}\n\n"
    if tag == "blockquote":
        lines = re.sub(r"\n{3,}", "\n\n", inside).strip().split("\n")
        return "\n\n" + "\n".join(f"> {line}".rstrip() for line in lines) + "\n\n"
    return _inline_marks(node, tag, inside)


def _inline_marks(node: LexborNode, tag: str, inside: str) -> str:
    words = inside.strip()
    if tag in ("strong", "b"):
        return f"**{words}**" if words else ""
    if tag in ("em", "i"):
        return f"_{words}_" if words else ""
    if tag in ("del", "s", "strike"):
        return f"~~{words}~~" if words else ""
    if tag == "code":
        return f"`{node.text()}`"
    if tag == "a":
        address = node.attributes.get("href")
        return f"[{words}]({address})" if address and words else inside
    if tag == "img":
        return f"![{node.attributes.get('alt') or ''}]({node.attributes.get('src') or ''})"
    if tag == "br":
        return "  \n"
    if tag == "hr":
        return "\n\n---\n\n"
    return f"\n\n{words}\n\n" if tag in _BLOCK else inside


def _entries(node: LexborNode, depth: int, pad: str) -> str:
    found = []
    for number, child in enumerate((one for one in node.iter() if one.tag == "li"), 1):
        mark = f"{number}." if node.tag == "ol" else "*"
        text = re.sub(r"\n{2,}", "\n", _children(child, depth, pad + "  ")).strip()
        found.append(f"{mark} " + text.replace("\n", "\n  "))
    return "\n".join(found)
