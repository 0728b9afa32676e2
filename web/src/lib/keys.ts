/** Single keys and the two-key ways to screens (docs/design/web.md#keyboard); calls the listener. */

export interface Key {
  /** "a", "?", "Enter", or two after another: "g o". */
  keys: string;
  words: string;
}

/** How a key event is written in the tables; null for one that is part of a chord of the system. */
export function nameOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): string | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  return event.key.length === 1 && event.key !== " " ? event.key : event.key === " " ? "Space" : event.key;
}

/** Ctrl K, or ⌘ K: the one chord of the app, also in fields and when single keys are off. */
export function isSearch(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): boolean {
  return event.key.toLowerCase() === "k" && event.ctrlKey !== event.metaKey && !event.altKey && !event.shiftKey;
}

/** Whether keys typed there are text, or mean something to the element itself. */
export function isField(target: unknown): boolean {
  const element = target as { tagName?: string; isContentEditable?: boolean; type?: string } | null;
  if (!element?.tagName) return false;
  if (element.isContentEditable) return true;
  const tag = element.tagName.toUpperCase();
  if (tag === "INPUT") return !["checkbox", "radio", "button", "submit"].includes(element.type ?? "text");
  return tag === "TEXTAREA" || tag === "SELECT";
}

/** Reads keys one after another: "g" waits a second for its second key. */
export class Sequence {
  #first: { key: string; at: number } | null = null;

  /** What has been typed, as written in the tables; null while a first key waits for its second. */
  next(key: string, at: number, firsts: ReadonlySet<string>): string | null {
    const first = this.#first;
    this.#first = null;
    if (first && at - first.at <= 1000) return `${first.key} ${key}`;
    if (firsts.has(key)) {
      this.#first = { key, at };
      return null;
    }
    return key;
  }
}

/** The place of the next or previous row; stays at the ends. */
export function step(at: number, by: number, length: number): number {
  if (!length) return -1;
  return Math.max(0, Math.min(length - 1, at + by));
}
