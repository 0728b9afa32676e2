"""The node markdown: converts Markdown to HTML and back."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from steward.model.json import JsonValue
from steward.steps.n8n.markup import html_to_markdown
from steward.steps.workflow.expressions.views import CodeFailed
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    WorkflowStepFailed,
    for_each_item,
    paired_with,
)

_LARGEST = 1024 * 1024


class MarkdownNode(StepType):
    """Converts to HTML with showdown in the sandbox, and to Markdown with html_to_markdown.py."""

    types = ("markdown",)
    parameters = frozenset(("mode", "markdown", "html", "destinationKey", "options"))
    choices = MappingProxyType(
        {
            "mode": frozenset(("markdownToHtml", "htmlToMarkdown")),
            "options.codeBlockStyle": frozenset(("fence", "fenced", "indented")),
        }
    )

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported options; n8n ignores those of the other direction, too."""
        options = node.get("options", {})
        for name in options if isinstance(options, Mapping) else ():
            if name not in _TO_HTML | html_to_markdown.OPTIONS:
                message = (
                    f"Its option “{str(name)[:60]}” is not supported. Remove it, or do without this step."
                )
                yield StepProblem("error", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Adds the converted text to each item."""
        if call.first.text("mode", "htmlToMarkdown") != "markdownToHtml":
            return for_each_item(
                call, lambda index, item: [_put(call.params(index), index, item, _marked(call, index))]
            )
        pages = await _pages(call)
        return for_each_item(
            call, lambda index, item: [_put(call.params(index), index, item, _page(pages, index))]
        )


def _put(params: Params, index: int, item: Item, text: str) -> Item:
    into: dict[str, JsonValue] = js.deep_copy(item.json)
    js.set_path(into, params.text("destinationKey", "data"), text)
    return Item(into, paired_with(index))


def _page(pages: Sequence[str | None], index: int) -> str:
    text = pages[index] if index < len(pages) else None
    if text is None:
        raise ItemFailed("The text cannot be turned into HTML. It may be over 1 MiB.")
    return text


def _marked(call: StepCall, index: int) -> str:
    params = call.params(index)
    text = params.text("html")
    if len(text) > _LARGEST:
        raise ItemFailed("The text is larger than 1 MiB.")
    try:
        return html_to_markdown.to_markdown(text, _style(params))
    except html_to_markdown.TooDeep:
        raise ItemFailed("The page has too many elements, or elements too deep in one another.") from None


def _style(params: Params) -> html_to_markdown.Style:
    max_newlines = js.number(params.get("options.maxConsecutiveNewlines", 3))
    return html_to_markdown.Style(
        bullet=params.text("options.bulletMarker", "*"),
        fence=params.text("options.codeFence", "```"),
        em=params.text("options.emDelimiter", "_"),
        strong=params.text("options.strongDelimiter", "**"),
        most_newlines=int(max_newlines) if max_newlines == max_newlines else 3,
        data_images=params.flag("options.keepDataImages"),
        references=params.flag("options.useLinkReferenceDefinitions"),
        indented_code=params.text("options.codeBlockStyle") == "indented",
    )


_TO_HTML = frozenset(
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
    """Returns a script that converts texts to HTML; a text that fails becomes null.

    It defines `RegExp.$1`, which showdown reads and QuickJS lacks.
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


def _text_and_options(call: StepCall, index: int) -> list[JsonValue]:
    """Returns an item's Markdown, or None if it is too large, and its supported options."""
    try:
        params = call.params(index)
        text, options = params.text("markdown"), params.get("options", {})
    except ItemFailed:
        text, options = "", {}
    supported = {name: options[name] for name in _TO_HTML & options.keys()} if js.is_object(options) else {}
    return [text if len(text) <= _LARGEST else None, supported]


async def _pages(call: StepCall) -> list[str | None]:
    texts = [_text_and_options(call, index) for index in range(len(call.items))]
    if not texts:
        return []
    try:
        pages = await call.evaluator.run_flow_code(_script(), texts, call.environment.now)
    except CodeFailed as failure:
        raise WorkflowStepFailed(failure.message) from None
    except OSError:
        raise WorkflowStepFailed(
            "The library that makes HTML of Markdown is not there. Build Steward again."
        ) from None
    return [page if isinstance(page, str) else None for page in pages] if isinstance(pages, list) else []
