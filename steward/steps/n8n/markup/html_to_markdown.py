"""Converts HTML to Markdown exactly like node-html-markdown, the library that n8n uses."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from steward.steps.n8n.markup.html_to_text import is_readable
from steward.steps.workflow.javascript import values as js

_DEEPEST = 100
OPTIONS = frozenset(("bulletMarker", "codeFence", "emDelimiter", "strongDelimiter", "keepDataImages"))
OPTIONS |= {"maxConsecutiveNewlines", "useLinkReferenceDefinitions", "codeBlockStyle"}

_BLOCKS = frozenset(
    {"address", "article", "aside", "audio", "blockquote", "body", "canvas", "center", "dd"}
    | {"dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "html", "isindex", "li"}
    | {"main", "menu", "nav", "noframes", "noscript", "ol", "output", "p", "pre", "section"}
    | {"table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"}
)
_IGNORED = frozenset(
    {"area", "base", "col", "command", "embed", "head", "input", "keygen", "link", "meta"}
    | {"param", "script", "source", "style", "track", "wbr"}
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_FULL_WHEN_EMPTY = _HEADINGS | {"ol", "ul", "li", "code", "table", "a", "img"}
_TAIL = 10
_SINGLE = frozenset(("br", "hr", "img"))
_DELIMITED = {
    "strong": "strong",
    "b": "strong",
    "em": "em",
    "i": "em",
    "del": "del",
    "s": "del",
    "strike": "del",
}


class TooDeep(Exception):
    """Raised when a page has too many elements or nests them too deeply."""


@dataclass(frozen=True, slots=True)
class Style:
    """The Markdown markers to write."""

    bullet: str = "*"
    fence: str = "```"
    em: str = "_"
    strong: str = "**"
    most_newlines: int = 3
    data_images: bool = False
    references: bool = False
    indented_code: bool = False


@dataclass(slots=True)
class _List:
    """The list around an element."""

    ordered: bool
    level: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class _Around:
    """The effect of the enclosing elements; `within` is the one whose content has special rules."""

    list: _List | None = None
    keep_blanks: bool = False
    keep_signs: bool = False
    within: str = ""


_DOCUMENT = re.compile(
    r"(?:\s++|<!--.*?-->)*+<(?:!doctype|html|head|body|title|meta|link|base)[\s/>]",
    re.IGNORECASE | re.DOTALL,
)


def to_markdown(page: str, style: Style | None = None) -> str:
    """Converts a page to Markdown. Raises TooDeep."""
    if not is_readable(page):
        raise TooDeep
    is_part = _DOCUMENT.match(page) is None
    body = LexborHTMLParser(f"<body>{page}" if is_part else page).body  # a fragment keeps its leading blanks
    writer = _Writer(style or Style(), _with_content(body) if body is not None else set())
    if body is not None:
        for child in body.iter(include_text=True):
            writer.visit(child, _Around(), 0)
    return writer.whole()


@dataclass(slots=True)
class _Writer:
    style: Style
    full: set[int]
    out: list[str] = field(default_factory=list)
    tail: str = ""  # the last characters written, including those around the current element
    addresses: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Appends Markdown."""
        if text:
            self.out.append(text)
            self.tail = (self.tail + text[-_TAIL:])[-_TAIL:]

    def whole(self) -> str:
        """Returns all Markdown written, followed by the link references."""
        if self.style.references:
            if self.tail and self.tail[-1] not in "\r\n":
                self.add("\n")
            self.add("".join(f"\n[{number}]: {address}" for number, address in enumerate(self.addresses, 1)))
        text, max_newlines = "".join(self.out), self.style.most_newlines
        if max_newlines > 0:
            text = re.sub(rf"(?:\r?\n\s*)+((?:\r?\n\s*){{{max_newlines}}})", r"\1", text)
        return text.strip("\n")

    def visit(self, node: LexborNode, around: _Around, depth: int) -> None:
        """Writes a node and its content."""
        tag = node.tag or ""
        if node.mem_id not in self.full:
            return
        if tag == "-text":
            self._words(node.text_content or "", around)
        elif tag in _DELIMITED and around.within != "code":
            self._delimited(node, around, depth, _DELIMITED[tag])
        elif around.within in ("a", "table", "row", "cell", "code"):
            self._within(node, tag, around, depth)
        elif tag not in _IGNORED:
            self._plainly(node, tag, around, depth)

    def _words(self, text: str, around: _Around) -> None:
        if not text.strip() and not around.keep_blanks:
            if self.tail and not self.tail[-1].isspace():
                self.add(" ")
            return
        if not around.keep_blanks:
            stripped = text.strip()
            start = text.index(stripped)
            text = _blank(text[start - 1 : start]) + stripped + _blank(text[start + len(stripped) :][:1])
            text = re.sub(r"\s+", " ", text)
        self.add(text if around.keep_signs else _escaped(text))

    def _children(self, node: LexborNode, around: _Around, depth: int) -> str:
        """Returns the Markdown of the node's children without writing it."""
        out, tail = self.out, self.tail
        self.out = []
        for child in node.iter(include_text=True):
            self.visit(child, around, depth + 1)
        inside = "".join(self.out)
        self.out, self.tail = out, tail
        return inside

    def _lines(self, count: int) -> None:
        blanks = self.tail[len(self.tail.rstrip()) :]
        self.add("\n" * max(0, count - blanks.count("\n") - blanks.count("\r")))

    def _block(self, write: Callable[[], str | None], lines: int = 2) -> bool:
        """Writes the result of `write` as a block; writes nothing and returns False if it is None."""
        count, tail = len(self.out), self.tail
        self._lines(lines)
        markdown = write()
        if markdown is None:
            del self.out[count:]
            self.tail = tail
            return False
        self.add(markdown)
        self._lines(lines)
        return True

    def _repeated(self, markdown: str) -> None:
        """Writes the text, separated by a space if it would merge with the preceding marker."""
        self.add(" " + markdown if markdown and self.tail[-1:] == markdown[0] else markdown)

    def _delimited(self, node: LexborNode, around: _Around, depth: int, kind: str) -> None:
        sign = {"strong": self.style.strong, "em": self.style.em, "del": "~~"}[kind]
        inside = self._children(node, around, depth)
        if inside.strip():
            self._repeated(_surrounded(inside, sign))

    def _plainly(self, node: LexborNode, tag: str, around: _Around, depth: int) -> None:
        """Writes an element outside links, tables and code blocks."""
        if tag == "br":
            self.add("  \n")
        elif tag == "img":
            self._image(node)
        elif tag == "a":
            self._link(node, around, depth)
        elif tag == "code":
            self._code(node, around, depth)
        elif tag not in _BLOCKS:
            for child in node.iter(include_text=True):
                self.visit(child, around, depth + 1)
        else:
            self._plain_block(node, tag, around, depth)

    def _plain_block(self, node: LexborNode, tag: str, around: _Around, depth: int) -> None:
        if tag in ("ul", "ol"):
            level = around.list.level + 1 if around.list else 0
            inner = replace(around, list=_List(tag == "ol", level))
            self._flow(node, inner, depth, 1)
        elif tag == "li":
            self._entry(node, around, depth)
        elif tag == "table":
            self._block(lambda: self._table(node, around, depth))
        elif tag == "blockquote":
            self._block(lambda: _quoted(self._children(node, around, depth)))
        elif tag == "hr":
            self._block(lambda: "---")
        else:
            if tag == "pre":
                around = replace(around, keep_blanks=True, keep_signs=True)
            self._flow(node, around, depth, 2, f"{'#' * int(tag[1])} " if tag in _HEADINGS else "")

    def _flow(self, node: LexborNode, around: _Around, depth: int, lines: int, prefix: str = "") -> None:
        self._lines(lines)
        self.add(prefix)
        for child in node.iter(include_text=True):
            self.visit(child, around, depth + 1)
        self._lines(lines)

    def _within(self, node: LexborNode, tag: str, around: _Around, depth: int) -> None:
        """Writes an element inside a link, a table or a code block."""
        if around.within == "code":
            self._within_code(node, tag, around, depth)
        elif tag == "img":
            self._image(node)
        elif tag in ("br", "hr") and around.within == "a":
            self.add("\n")
        elif tag == "a" and around.within == "cell":
            self._link(node, around, depth)
        elif around.within in ("table", "row"):
            self._within_table(node, tag, around, depth)
        else:
            self._visit_children(node, around, depth)

    def _within_code(self, node: LexborNode, tag: str, around: _Around, depth: int) -> None:
        if tag in ("br", "hr"):
            self.add("---" if tag == "hr" else "\n")
        elif tag == "img" or tag in _IGNORED:
            return
        elif tag in _BLOCKS:
            prefix, postfix = ("[", "]") if tag in _HEADINGS else ("", "")
            self._block(lambda: prefix + self._children(node, around, depth) + postfix)
        else:
            self._visit_children(node, around, depth)

    def _within_table(self, node: LexborNode, tag: str, around: _Around, depth: int) -> None:
        if tag == "tr" and around.within == "table":
            row = self._children(node, replace(around, within="row"), depth)
            self.add(f"| {row}\n" if re.search(r" \|\s*\Z", row) else "")
        elif tag in ("td", "th"):
            cell = self._children(node, replace(around, within="cell"), depth)
            cell = cell.strip("\n").replace("|", "\\|", 1)
            self.add(" " + re.sub(r"(?:\r?\n)+", " ", cell).strip() + " |")
        elif tag == "caption" and around.within == "table":
            caption = self._children(node, replace(around, within="cell"), depth)
            self.captions.append(re.sub(r"(?:\r?\n)+", " ", caption).strip())
        else:
            self._visit_children(node, around, depth)

    def _visit_children(self, node: LexborNode, around: _Around, depth: int) -> None:
        for child in node.iter(include_text=True):
            self.visit(child, around, depth + 1)

    def _entry(self, node: LexborNode, around: _Around, depth: int) -> None:
        around_list, level = around.list, around.list.level if around.list else 0
        mark = f"{self.style.bullet} "
        if around_list is not None and around_list.ordered:
            around_list.number += 1
            mark = f"{around_list.number}. "

        def write() -> str | None:
            prefix = "   " * level + mark
            count, tail = len(self.out), self.tail
            self.add(prefix)
            inside = self._children(node, around, depth)
            del self.out[count:]
            self.tail = tail
            if not inside.strip():
                return None
            below = f"  \n{'   ' * level}"
            inside = re.sub(r"([^\r\n])(?:\r?\n)+", lambda match: match[1] + below, inside.strip())
            return prefix + re.sub(r"(?<=\S)[^\S\r\n]+$", "  ", inside, flags=re.MULTILINE)

        if not self._block(write, 1) and around_list is not None and around_list.ordered:
            around_list.number -= 1

    def _image(self, node: LexborNode) -> None:
        address, alt, title = (node.attributes.get(name) or "" for name in ("src", "alt", "title"))
        if address and (self.style.data_images or not address.lower().startswith("data:")):
            self.add(f"![{alt}]({address}{f' {chr(34)}{title}{chr(34)}' if title else ''})")

    def _link(self, node: LexborNode, around: _Around, depth: int) -> None:
        address = node.attributes.get("href")
        if not address:
            for child in node.iter(include_text=True):
                self.visit(child, around, depth + 1)
            return
        safe = address.translate({ord("("): "%28", ord(")"): "%29", ord("_"): "%5F", ord("*"): "%2A"})
        if node.text() == address:
            self.add(f"<{safe}>")
            return
        self.add("[")
        words = re.sub(r"(?:\r?\n)+", " ", self._children(node, replace(around, within="a"), depth))
        title = node.attributes.get("title")
        if self.style.references:
            if safe not in self.addresses:
                self.addresses.append(safe)
            self.add(f"{words}][{self.addresses.index(safe) + 1}]")
        else:
            self.add(f"{words}]({safe}{f' {chr(34)}{title}{chr(34)}' if title else ''})")

    def _code(self, node: LexborNode, around: _Around, depth: int) -> None:
        parent = node.parent
        alone = parent is not None and parent.tag == "pre" and len(list(parent.iter(include_text=True))) < 2
        if not alone:
            inside = self._children(node, replace(around, keep_signs=True), depth)
            ticks = "`" + max(re.findall("`+", inside), key=len, default="")
            padding = " " if len(ticks) > 1 else ""
            self._repeated(f"{ticks}{padding}{inside}{padding}{ticks}")
            return
        inner = replace(around, keep_signs=True, within="code")
        if self.style.indented_code:
            self.add(re.sub("^", "    ", self._children(node, inner, depth), flags=re.MULTILINE))
            return
        language = re.search(r"language-(\S+)", node.attributes.get("class") or "")
        self.add(f"{self.style.fence}{language[1] if language else ''}\n")
        self.add(f"{self._children(node, inner, depth)}\n{self.style.fence}")

    def _table(self, node: LexborNode, around: _Around, depth: int) -> str | None:
        content = self._children(node, replace(around, within="table"), depth)
        caption = self.captions.pop() if self.captions else ""
        rows = [_table_cells(line) for line in re.split(r"\r\n|\r|\n", content) if line]
        if not rows:
            return None
        return (f"__{caption}__\n" if caption else "") + "\n".join(_table_lines(rows)) + "\n"


def _table_cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.sub(r"^(?:\|\s+)?(.+)\s*\|\s*$", r"\1", line).split(" |")]


def _table_lines(rows: list[list[str]]) -> list[str]:
    """Returns the lines of a table with aligned columns and a rule below the first row."""
    count = max(len(row) for row in rows)
    lengths = [[js.text_length(cell) for cell in [*row, *[""] * (count - len(row))]] for row in rows]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    lines = []
    for row, row_lengths in zip(rows, lengths, strict=True):
        cells = [*row, *[""] * (count - len(row))]
        blanks = [" " * (width - length) for width, length in zip(widths, row_lengths, strict=True)]
        lines.append("| " + " ".join(f"{cell}{blank} |" for cell, blank in zip(cells, blanks, strict=True)))
    lines.insert(1, "|" + "".join(f" {'-' * width} |" for width in widths))
    return lines


def _with_content(root: LexborNode) -> set[int]:
    """Returns the ids of the elements that have content. Raises TooDeep."""
    with_content: set[int] = set()
    stack: list[tuple[LexborNode, tuple[int, ...]]] = [(root, ())]
    while stack:
        current, above = stack.pop()
        tag = current.tag or ""
        children = [child for child in current.iter(include_text=True) if child.tag != "-comment"]
        if _is_content(tag, children):
            with_content.update((current.mem_id, *above))
        if len(above) > _DEEPEST:
            raise TooDeep
        inside = (*above, current.mem_id)
        stack += [(child, inside) for child in children]
    return with_content


def _is_content(tag: str, children: list[LexborNode]) -> bool:
    return tag == "-text" or tag in _SINGLE or (not children and tag in _FULL_WHEN_EMPTY)


def _blank(sign: str) -> str:
    """Collapses white space to one space."""
    return " " if sign and sign not in "\r\n" else ""


def _escaped(text: str) -> str:
    """Escapes the characters that Markdown would interpret."""
    text = re.sub(r"[\\`*_~\[\]]", r"\\\g<0>", text)

    def line_start(match: re.Match[str]) -> str:
        return f"{match[1] or ''}{match[3] or ''}\\{match[2] or ''}{match[4] or ''}"

    return re.sub(
        r"^(\s*?)((?:\+\s)|(?:[=>-])|(?:#{1,6}\s))|(?:(?<!\d)(\d+)(\.\s))",
        line_start,
        text,
        flags=re.MULTILINE,
    )


def _surrounded(content: str, sign: str) -> str:
    """Wraps each line in the marker, keeping outer white space outside."""
    if sign in content:
        content = re.sub(rf"([^\\]){re.escape(sign)}", r"\1", content)
    parts = re.split(r"(\r\n|\r|\n)", content)
    out = ""
    for index in range(0, len(parts), 2):
        line, end = parts[index], parts[index + 1] if index + 1 < len(parts) else ""
        stripped = line.strip()
        if not stripped:
            out += line + end
            continue
        start = line.index(stripped)
        out += (
            line[max(start - 1, 0) : start] + sign + stripped + sign + line[start + len(stripped) :][:1] + end
        )
    return out


def _quoted(content: str) -> str:
    return re.sub(r"^(>*)[^\S\r\n]?", r">\1 ", content.strip("\n"), flags=re.MULTILINE)
