/** Keyboard shortcuts: single keys, and sequences of two keys that open screens (docs/design/web.md#keyboard). */

export interface Key {
  /** "a", "?", "Enter", or a sequence of two: "g o". */
  keys: string;
  words: string;
}

/** Returns a key event as the shortcut tables write it; null for a key combination of the browser or system. */
export function nameOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): string | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  return event.key.length === 1 && event.key !== " " ? event.key : event.key === " " ? "Space" : event.key;
}

/** Whether the event is Ctrl K or ⌘ K, the only key combination; it works in fields and without single keys. */
export function isSearch(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): boolean {
  return event.key.toLowerCase() === "k" && event.ctrlKey !== event.metaKey && !event.altKey && !event.shiftKey;
}

/** Whether the element handles keys itself, as text fields do. */
export function isField(target: unknown): boolean {
  const element = target as { tagName?: string; isContentEditable?: boolean; type?: string } | null;
  if (!element?.tagName) return false;
  if (element.isContentEditable) return true;
  const tag = element.tagName.toUpperCase();
  if (tag === "INPUT") return !["checkbox", "radio", "button", "submit"].includes(element.type ?? "text");
  return tag === "TEXTAREA" || tag === "SELECT";
}

/** Reads keys one after another: after "g" it waits a second for the second key. */
export class Sequence {
  #first: { key: string; at: number } | null = null;

  /** Returns the typed keys as the tables write them; null while the first key waits for its second. */
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

/** Returns the index of the next or previous row; stays at the ends. */
export function step(index: number, by: number, length: number): number {
  if (!length) return -1;
  return Math.max(0, Math.min(length - 1, index + by));
}
