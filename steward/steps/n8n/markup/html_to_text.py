"""Writes a page's elements as plain text, like the library html-to-text without options."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from steward.steps.workflow.javascript import values as js

_WIDTH = 80
_DEEPEST = 100  # deeper elements are left out; real pages do not nest this far
_WORDS = re.compile("[^ \t\r\n\f\u200b]+")
_BLANKS = " \t\r\n\f\u200b"
_SMALL_BLOCKS = frozenset(("article", "aside", "div", "footer", "form", "header", "main", "nav", "section"))
_LINE_BREAKS = dict.fromkeys(_SMALL_BLOCKS, (1, 1)) | dict.fromkeys(("p", "pre", "table"), (2, 2))
_LINE_BREAKS |= dict.fromkeys(("h1", "h2", "h3"), (3, 2)) | dict.fromkeys(("h4", "h5", "h6"), (2, 2))
_UNSEEN = frozenset(("script", "style", "-comment", "-doctype"))


_MAX_ELEMENTS = 100_000
_DEEPEST_PAGE = 1_000  # parsing time grows with the nesting depth
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_SHORT = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"))
_SHORT |= frozenset(("source", "track", "wbr", "p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th"))
_SHORT |= frozenset(("tbody", "thead", "tfoot", "colgroup", "body", "html", "head"))


def is_readable(page: str) -> bool:
    """Returns whether the page has neither too many elements nor too deeply nested ones."""
    opened: Counter[str] = Counter()
    depth = 0
    for number, match in enumerate(_TAG.finditer(page)):
        name = match[2].lower()
        if number > _MAX_ELEMENTS or depth > _DEEPEST_PAGE:
            return False
        if name in _SHORT or (match[1] and not opened[name]):
            continue
        change = -1 if match[1] else 1
        opened[name] += change
        depth += change
    return True


def plain_text(node: LexborNode, skipped: Collection[int] = ()) -> str:
    """Returns the plain text inside the element.

    Args:
    node: The element.
    skipped: The `mem_id` of elements to leave out.
    """
    writer = _Writer(skipped)
    block = _Block(_WIDTH)
    writer.children(node, block, 0)
    return block.text()


@dataclass(slots=True)
class _Block:
    """A block of text: its finished parts and the lines being written."""

    width: int
    keeps_blanks: bool = False
    leading: int = 0
    complete: list[str] = field(default_factory=list)
    due_breaks: int = 0
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    is_apart: bool = False  # whether a space precedes the next word
    length: int = 0  # of the last line

    def text(self) -> str:
        """Returns the whole text so far."""
        return "".join((*self.complete, *self._written()))

    def _written(self) -> list[str]:
        line_texts = "\n".join(" ".join(words) for words in self.lines)
        return [line_texts] if line_texts else []

    def add_words(self, text: str) -> None:
        """Adds the words of a text with single spaces between them, wrapping lines."""
        if self.keeps_blanks:
            self.complete.append(text)
            return
        words = [match[0] for match in _WORDS.finditer(text)]
        if not words:
            self.is_apart |= bool(text) and not self.due_breaks
            return
        for _ in range(self.due_breaks):
            self.new_line()
        self.due_breaks = 0
        if self.lines[-1] and not self.is_apart and text[0] not in _BLANKS:
            last = self.lines[-1].pop()
            self.length -= js.text_length(last) + bool(self.lines[-1])
            words[0] = last + words[0]
        for word in words:
            self._add(word)
        self.is_apart = text[-1] in _BLANKS

    def _add(self, word: str) -> None:
        if self.lines[-1] and self.length + 1 + js.text_length(word) > self.width:
            self.new_line()
        self.length += js.text_length(word) + bool(self.lines[-1])
        self.lines[-1].append(word)

    def new_line(self) -> None:
        """Begins a new line."""
        if self.keeps_blanks:
            self.complete.append("\n")
            return
        self.lines.append([])
        self.length = 0

    def add_block(self, text: str, leading: int, trailing: int) -> None:
        """Adds the text of a nested block, separated by line breaks."""
        breaks = max(self.due_breaks, leading)
        self.complete += self._written()
        self.lines, self.length = [[]], 0
        if self.complete:
            self.complete.append("\n" * breaks + text)
        else:
            self.complete, self.leading = [text] if text else [], breaks
        self.due_breaks = trailing


class _Writer:
    """Walks over elements and writes them into blocks."""

    def __init__(self, skipped: Collection[int]) -> None:
        self.skipped = skipped
        self.capitals = 0
        self.words = 0  # number of text nodes that contained words

    def children(self, node: LexborNode, block: _Block, depth: int) -> None:
        """Writes the children of an element."""
        if depth > _DEEPEST:
            return
        within = LexborHTMLParser(node.text()).body if node.tag == "noframes" else node
        for child in _children(within or node):
            self._write(child, block, depth + 1)

    def _write(self, node: LexborNode, block: _Block, depth: int) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self._words(node.text(), block)
        elif tag in _UNSEEN or node.mem_id in self.skipped:
            return
        elif tag == "br":
            block.new_line()
        elif tag == "a":
            self._link(node, block, depth)
        elif tag == "img":
            block.add_words(_image(node))
        elif tag == "hr":
            block.add_block("-" * _WIDTH, 2, 2)
        else:
            self._element(tag, node, block, depth)

    def _element(self, tag: str, node: LexborNode, block: _Block, depth: int) -> None:
        """Writes an element that may contain others."""
        if tag in ("ul", "ol"):
            self._list(node, block, depth)
        elif tag == "blockquote":
            self._block(node, block, depth, (2, 2), reserved=2, change=_quoted)
        elif tag in _LINE_BREAKS:
            is_heading = re.fullmatch("h[1-6]", tag) is not None
            self.capitals += is_heading
            self._block(node, block, depth, _LINE_BREAKS[tag], keeps_blanks=tag == "pre")
            self.capitals -= is_heading
        else:
            self.children(node, block, depth)

    def _words(self, text: str, block: _Block) -> None:
        self.words += bool(text.strip(_BLANKS))
        is_upper = self.capitals and not block.keeps_blanks  # within pre nothing is changed
        block.add_words(text.upper() if is_upper else text)

    def _block(
        self,
        node: LexborNode,
        around: _Block,
        depth: int,
        line_breaks: tuple[int, int],
        *,
        reserved: int = 0,
        keeps_blanks: bool = False,
        change: Callable[[str], str] = str,
    ) -> None:
        leading, trailing = line_breaks
        block = _Block(max(20, around.width - reserved), keeps_blanks or around.keeps_blanks, leading)
        self.children(node, block, depth)
        around.add_block(change(block.text()), block.leading, max(block.due_breaks, trailing))

    def _link(self, node: LexborNode, block: _Block, depth: int) -> None:
        """Writes a link's text and its URL in brackets; leaves out the URL of links within the page."""
        before = self.words
        self.children(node, block, depth)
        address = (node.attributes.get("href") or "").removeprefix("mailto:")
        if not address or address.startswith("#"):
            return
        block.add_words(address if self.words == before else f" [{address}]")

    def _list(self, node: LexborNode, around: _Block, depth: int) -> None:
        parent = node.parent
        is_within = parent is not None and parent.tag == "li"
        breaks = 1 if is_within else 2
        items = [child for child in _children(node) if child.tag != "-text" or child.text().strip()]
        prefixes = _prefixes(node, items, is_within=is_within)
        room = max(map(len, prefixes), default=0)
        listed = _Block(around.width, leading=breaks)
        for child, prefix in zip(items, prefixes, strict=True):
            item = _Block(max(20, around.width - room), leading=1)
            self._write(child, item, depth + 1)
            first, *rest = item.text().split("\n")
            lines = [prefix.ljust(room) + first, *(" " * room + line for line in rest)]
            listed.add_block("\n".join(lines), item.leading, max(item.due_breaks, 1))
        if text := listed.text():
            around.add_block(text, listed.leading, breaks)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def _image(node: LexborNode) -> str:
    alt, source = (node.attributes.get(name) or "" for name in ("alt", "src"))
    return f"{alt} [{source}]" if alt and source else f"[{source}]" if source else alt


def _start(node: LexborNode) -> int:
    start = (node.attributes.get("start") or "1").strip()
    return int(start) if re.fullmatch(r"-?\d{1,9}", start) else 1


def _prefixes(node: LexborNode, items: Sequence[LexborNode], *, is_within: bool) -> list[str]:
    """Returns the prefix of each list item; `is_within` marks a list nested in another's item."""
    prefixes, number = [], _start(node)
    for item in items:
        prefix = " * " if node.tag == "ul" else f" {number}. "
        number += item.tag == "li"
        prefixes.append("" if item.tag != "li" else prefix.lstrip() if is_within else prefix)
    return prefixes


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip("\n").split("\n"))
