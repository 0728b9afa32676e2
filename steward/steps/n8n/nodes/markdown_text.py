"""markdown: text with marks into HTML and back (imports 6); each paired with its own item."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from steward.steps.n8n import html_to_markdown as html_marks
from steward.steps.workflow.expressions.views import CodeFailed
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepBroke,
    StepType,
    each,
    same,
)

LARGEST = 1024 * 1024


class Markdown(StepType):
    """Into HTML by the library the origin names for it, in a confined child; back by what is written here."""

    types = ("markdown",)
    known = frozenset(("mode", "markdown", "html", "destinationKey", "options"))
    choices = MappingProxyType(
        {
            "mode": frozenset(("markdownToHtml", "htmlToMarkdown")),
            "options.codeBlockStyle": frozenset(("fence", "fenced", "indented")),
        }
    )

    def check(self, asked: Asked) -> Iterable[Problem]:
        """That its options are carried: all of one way, some of the other."""
        to_html = asked.literal("mode", "htmlToMarkdown") == "markdownToHtml"
        options = asked.get("options", {})
        for name in options if isinstance(options, Mapping) else ():
            if name not in (TO_HTML if to_html else html_marks.OPTIONS):
                words = (
                    f"Its option “{str(name)[:60]}” is not carried here. Remove it, or do without this step."
                )
                yield Problem("error", "parameter", words)

    async def run(self, call: Call) -> Result:
        """Each item with its text."""
        if call.first.text("mode", "htmlToMarkdown") != "markdownToHtml":
            return each(
                call, lambda place, item: [_put(call.params(place), place, item, _marked(call, place))]
            )
        pages = await _pages(call)
        return each(call, lambda place, item: [_put(call.params(place), place, item, _page(pages, place))])


def _put(params: Params, place: int, item: Item, text: str) -> Item:
    into: dict[str, Any] = js.copied(item.json)
    js.put(into, params.text("destinationKey", "data"), text)
    return Item(into, same(place))


def _page(pages: Sequence[str | None], place: int) -> str:
    text = pages[place] if place < len(pages) else None
    if text is None:
        raise ItemFailed("The text cannot be turned into HTML. It may be over 1 MiB.")
    return text


def _marked(call: Call, place: int) -> str:
    params = call.params(place)
    text = params.text("html")
    if len(text) > LARGEST:
        raise ItemFailed("The text is larger than 1 MiB.")
    try:
        return html_marks.to_marks(text, _style(params))
    except html_marks.TooDeep:
        raise ItemFailed("The elements of the page lie too deep in one another.") from None


def _style(params: Params) -> html_marks.Style:
    most = js.number(params.get("options.maxConsecutiveNewlines", 3))
    return html_marks.Style(
        bullet=params.text("options.bulletMarker", "*"),
        fence=params.text("options.codeFence", "```"),
        em=params.text("options.emDelimiter", "_"),
        strong=params.text("options.strongDelimiter", "**"),
        most_newlines=int(most) if most == most else 3,
        data_images=params.flag("options.keepDataImages"),
        references=params.flag("options.useLinkReferenceDefinitions"),
        indented_code=params.text("options.codeBlockStyle") == "indented",
    )


TO_HTML = frozenset(
    {"openLinksInNewWindow", "simplifiedAutoLink", "backslashEscapesHTMLTags"}
    | {"completeHTMLDocument", "customizedHeaderId", "emoji", "encodeEmails"}
    | {"excludeTrailingPunctuationFromURLs", "ghCodeBlocks", "ghCompatibleHeaderId"}
    | {"ghMentionsLink", "ghMentions", "tasklists", "headerLevelStart"}
    | {"requireSpaceBeforeHeadingText", "literalMidWordAsterisks", "literalMidWordUnderscores"}
    | {"noHeaderId", "parseImgDimensions", "prefixHeaderId", "rawHeaderId", "rawPrefixHeaderId"}
    | {"simpleLineBreaks", "smartIndentationFix", "disableForced4SpacesIndentedSublists"}
    | {"splitAdjacentBlockquotes", "strikethrough", "tablesHeaderId", "tables"}
)
_BUILT = Path(__file__).parents[3] / "sandbox" / "built" / "showdown.js"


@cache
def _script() -> str:
    """A script that makes a page of each text; what a text breaks is null.

    The library asks for the parts of the pattern tested last by an old way (`RegExp.$1`) the engine has not.
    """
    return f"""export default function main(input) {{
const module = {{ exports: {{}} }};
let last = [];
RegExp.prototype.test = function (text) {{
  const found = this.exec(text);
  if (found) last = found;
  return found !== null;
}};
for (const place of [1, 2]) Object.defineProperty(RegExp, "$" + place, {{ get: () => last[place] || "" }});
(function () {{ {_BUILT.read_text("utf-8")}
}}).call({{}});
return input.map(([text, options]) => {{
  try {{
    const converter = new module.exports.Converter();
    for (const name of Object.keys(options)) converter.setOption(name, options[name]);
    return converter.makeHtml(text);
  }} catch (error) {{ return null; }}
}});
}}"""


async def _pages(call: Call) -> list[str | None]:
    asked: list[list[Any]] = []
    for place in range(len(call.items)):
        try:
            params = call.params(place)
            text, options = params.text("markdown"), params.get("options", {})
        except ItemFailed:
            text, options = "", {}
        kept = {name: options[name] for name in TO_HTML & options.keys()} if js.is_object(options) else {}
        asked.append([text if len(text) <= LARGEST else None, kept])
    if not asked:
        return []
    try:
        found = await call.evaluator.run_flow_code(_script(), asked, call.scene.now)
    except CodeFailed as failure:
        raise StepBroke(failure.message) from None
    except OSError:
        raise StepBroke("The library that makes HTML of Markdown is not there. Build Steward anew.") from None
    return [one if isinstance(one, str) else None for one in found] if isinstance(found, list) else []
