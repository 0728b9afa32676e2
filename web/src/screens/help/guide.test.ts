import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import pages from "../../pages.json";
import { blocksOf, runsOf } from "./guide";
import { TOPICS } from "./topics";

const blocks = blocksOf(readFileSync("../docs/guides/merchants.md", "utf8"));

describe("the guide", () => {
  it("has a section for every screen", () => {
    const sections = new Set(blocks.flatMap((block) => (block.kind === "heading" ? [block.id] : [])));
    const screens = Object.keys(pages).filter((page) => page !== "help");
    expect(Object.keys(TOPICS).sort()).toEqual(screens.sort());
    expect(Object.values(TOPICS).filter((topic) => !sections.has(topic))).toEqual([]);
  });

  it("leaves no marks of Markdown in what is read", () => {
    const runs = blocks.flatMap((block) => {
      if (block.kind === "list") return block.items.flat();
      if (block.kind === "table") return [...block.head.flat(), ...block.rows.flat(2)];
      return block.runs;
    });
    const marked = runs.filter(({ kind, text }) => kind !== "code" && /\*\*|\]\(|^#|!\[|`/.test(text));
    expect(marked).toEqual([]);
  });

  it("keeps only addresses of other places as links", () => {
    expect(runsOf("See [the site](https://example.com) and [this](other.md), *then* `x`.").map(({ kind }) => kind)).toEqual([
      "text", "link", "text", "text", "text", "emphasis", "text", "code", "text",
    ]);
  });
});
