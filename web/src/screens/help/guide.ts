/** Parses the Markdown of docs/guides/merchants.md and its tasks; supports only the syntax that they use. */

export interface Run {
  kind: "text" | "strong" | "emphasis" | "code" | "link" | "section";
  text: string;
  /** An external address, or the id of a section. */
  href?: string;
}

export type Block =
  | { kind: "heading"; level: number; id: string; runs: Run[] }
  | { kind: "text"; runs: Run[] }
  | { kind: "list"; ordered: boolean; items: Run[][] }
  | { kind: "table"; head: Run[][]; rows: Run[][][] };

const MARKS = /\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`|\[([^\]]+)\]\(([^)\s]+)\)/g;
const SECTION = /(?:merchants\.md#|merchants\/)([a-z-]+)(?:\.md)?$/;
const PICTURE = /^!\[[^\]]*\]\([^)]*\)$/;

/** Turns a title into the last part of an address: "undo-a-run" for "Undo a run". */
export function anchor(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
}

/** Parses a line's text; links lead to external pages, to a section of the guide or to a task. */
export function runsOf(text: string): Run[] {
  const runs: Run[] = [];
  let from = 0;
  for (const match of text.matchAll(MARKS)) {
    if (match.index > from) runs.push({ kind: "text", text: text.slice(from, match.index) });
    const [whole, strong, emphasis, code, words, href] = match;
    if (strong) runs.push({ kind: "strong", text: strong });
    else if (emphasis) runs.push({ kind: "emphasis", text: emphasis });
    else if (code) runs.push({ kind: "code", text: code });
    else if (href?.startsWith("https:")) runs.push({ kind: "link", text: words!, href });
    else {
      const section = SECTION.exec(href ?? "")?.[1];
      runs.push(section ? { kind: "section", text: words!, href: section } : { kind: "text", text: words! });
    }
    from = match.index + whole.length;
  }
  if (from < text.length) runs.push({ kind: "text", text: text.slice(from) });
  return runs;
}

const cells = (line: string) => line.replace(/^\||\|$/g, "").split("|").map((cell) => runsOf(cell.trim()));

/** Parses the guide into blocks, in order. */
export function blocksOf(markdown: string): Block[] {
  const parts = markdown.split(/\n{2,}/).map((part) => part.trim()).filter((part) => part && !PICTURE.test(part));
  return parts.map((part) => {
    const heading = /^(#{1,4}) (.+)$/.exec(part);
    if (heading) return { kind: "heading", level: heading[1]!.length, id: anchor(heading[2]!), runs: runsOf(heading[2]!) };
    const mark = /^(?:- |\d\. )/;
    if (mark.test(part)) {
      const items = part.split(/\n(?=- |\d\. )/).map((item) => runsOf(item.replace(mark, "").replace(/\s*\n\s*/g, " ")));
      return { kind: "list", ordered: !part.startsWith("-"), items };
    }
    if (part.startsWith("|")) {
      const [head, , ...rows] = part.split("\n");
      return { kind: "table", head: cells(head!), rows: rows.map(cells) };
    }
    return { kind: "text", runs: runsOf(part.replace(/\n/g, " ")) };
  });
}
