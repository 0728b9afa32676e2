/** The merchants' guide as blocks: the Markdown that docs/guides/merchants.md uses, and no more. */

export interface Run {
  kind: "text" | "strong" | "emphasis" | "code" | "link";
  text: string;
  href?: string;
}

export type Block =
  | { kind: "heading"; level: number; id: string; runs: Run[] }
  | { kind: "text"; runs: Run[] }
  | { kind: "list"; items: Run[][] }
  | { kind: "table"; head: Run[][]; rows: Run[][][] };

const MARKS = /\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`|\[([^\]]+)\]\(([^)\s]+)\)/g;
const PICTURE = /^!\[[^\]]*\]\([^)]*\)$/;

/** "Undo a run" as the end of an address: "undo-a-run". */
export function anchor(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
}

/** A line's words; only addresses of other places stay links. */
export function runsOf(text: string): Run[] {
  const runs: Run[] = [];
  let from = 0;
  for (const match of text.matchAll(MARKS)) {
    if (match.index > from) runs.push({ kind: "text", text: text.slice(from, match.index) });
    const [whole, strong, emphasis, code, words, href] = match;
    if (strong) runs.push({ kind: "strong", text: strong });
    else if (emphasis) runs.push({ kind: "emphasis", text: emphasis });
    else if (code) runs.push({ kind: "code", text: code });
    else runs.push(href?.startsWith("https:") ? { kind: "link", text: words!, href } : { kind: "text", text: words! });
    from = match.index + whole.length;
  }
  if (from < text.length) runs.push({ kind: "text", text: text.slice(from) });
  return runs;
}

const cells = (line: string) => line.replace(/^\||\|$/g, "").split("|").map((cell) => runsOf(cell.trim()));

/** The guide in the order it is written. */
export function blocksOf(markdown: string): Block[] {
  const parts = markdown.split(/\n{2,}/).map((part) => part.trim()).filter((part) => part && !PICTURE.test(part));
  return parts.map((part) => {
    const heading = /^(#{1,4}) (.+)$/.exec(part);
    if (heading) return { kind: "heading", level: heading[1]!.length, id: anchor(heading[2]!), runs: runsOf(heading[2]!) };
    if (part.startsWith("- ")) {
      const items = part.split(/\n(?=- )/).map((item) => runsOf(item.slice(2).replace(/\s*\n\s*/g, " ")));
      return { kind: "list", items };
    }
    if (part.startsWith("|")) {
      const [head, , ...rows] = part.split("\n");
      return { kind: "table", head: cells(head!), rows: rows.map(cells) };
    }
    return { kind: "text", runs: runsOf(part.replace(/\n/g, " ")) };
  });
}
