import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import pages from "../../pages.json";
import { blocksOf, runsOf } from "./guide";
import { TASKS, TOPICS } from "./topics";

const read = (path: string) => readFileSync(path, "utf8");
const guide = blocksOf(read("../docs/guides/merchants.md"));
const tasks = TASKS.map((task) => blocksOf(read(`../docs/guides/merchants/${task}.md`)));
const blocks = [...tasks.flat(), ...guide];
const runsIn = (parts: typeof blocks) =>
  parts.flatMap((block) => {
    if (block.kind === "list") return block.items.flat();
    if (block.kind === "table") return [...block.head.flat(), ...block.rows.flat(2)];
    return block.runs;
  });
const ids = (parts: typeof blocks) => parts.flatMap((block) => (block.kind === "heading" ? [block.id] : []));

describe("the guide", () => {
  it("has a section for every screen", () => {
    const sections = new Set(ids(blocks));
    const screens = Object.keys(pages).filter((page) => page !== "help");
    expect(Object.keys(TOPICS).sort()).toEqual(screens.sort());
    expect(Object.values(TOPICS).filter((topic) => !sections.has(topic))).toEqual([]);
  });

  it("leaves no marks of Markdown in what is read", () => {
    const marked = runsIn(blocks).filter(({ kind, text }) => kind !== "code" && /\*\*|\]\(|^#|!\[|`/.test(text));
    expect(marked).toEqual([]);
  });

  it("has every task once, under the name of its file, and leads to sections that exist", () => {
    expect(readdirSync("../docs/guides/merchants").map((name) => basename(name, ".md")).sort()).toEqual([...TASKS].sort());
    expect(tasks.map((task) => ids(task))).toEqual(TASKS.map((task) => [task]));
    const led = runsIn(blocks).flatMap(({ kind, href }) => (kind === "section" ? [href!] : []));
    expect(new Set(ids(blocks)).size).toBe(ids(blocks).length);
    expect(led.filter((id) => !ids(blocks).includes(id))).toEqual([]);
    expect(tasks.every((task) => runsIn(task).some(({ kind }) => kind === "section"))).toBe(true);
  });

  it("calls what one presses in a task as the screens call it", () => {
    const sources = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((path) => /\.(svelte|ts)$/.test(path));
    const ours = sources.filter((path) => !path.includes("schema.d.ts") && !path.includes("help/"));
    const screens = ours.map((path) => read(`src/${path}`)).join("\n");
    const emphasized = tasks.flatMap(runsIn).flatMap(({ kind, text }) => (kind === "emphasis" ? [text] : []));
    expect(emphasized.length).toBeGreaterThan(50);
    expect(emphasized.filter((words) => !["\"", "'", ">", "`"].some((start) => screens.includes(start + words)) && !screens.includes(`> ${words}`))).toEqual([]);
  });

  it("keeps only addresses of other places as links", () => {
    expect(runsOf("See [the site](https://example.com) and [this](other.md), *then* `x`.").map(({ kind }) => kind)).toEqual([
      "text", "link", "text", "text", "text", "emphasis", "text", "code", "text",
    ]);
    const runs = runsOf("[One](../merchants.md#undo-a-run) and [two](merchants/connect-a-shop.md)");
    expect(runs.map(({ kind, href }) => [kind, href])).toEqual([["section", "undo-a-run"], ["text", undefined], ["section", "connect-a-shop"]]);
  });
});
