/** Notes after actions, with Undo where possible, and the texts of the live regions. */

import { pause } from "./clock.svelte";

const SHOWN_MS = 6000;
const ANNOUNCEMENT_MS = 1000;

export interface Note {
  id: number;
  words: string;
  tone: "plain" | "bad";
  undo?: () => Promise<void> | void;
}

class Notes {
  shown = $state.raw<Note[]>([]);
  /** The text of the polite live region; at most one text a second. */
  polite = $state("");
  /** The text of the assertive live region, for refusals. */
  assertive = $state("");
  #next = 1;
  #queue: string[] = [];
  #speaking = false;
  #held = false;

  /** Shows a note for six seconds; longer while the pointer or focus is on it. */
  add(words: string, { undo, tone = "plain" }: { undo?: Note["undo"]; tone?: Note["tone"] } = {}): void {
    const note: Note = { id: this.#next++, words, tone, undo };
    this.shown = [...this.shown.slice(-2), note];
    if (tone === "bad") this.assertive = words;
    else this.say(words);
    void this.#end(note.id);
  }

  remove(id: number): void {
    this.shown = this.shown.filter((note) => note.id !== id);
  }

  hold(held: boolean): void {
    this.#held = held;
  }

  /** Announces a text to screen readers, politely. */
  say(words: string): void {
    if (this.#queue.at(-1) === words) return;
    this.#queue.push(words);
    if (!this.#speaking) void this.#speak();
  }

  /** Announces a refusal to screen readers at once. */
  warn(words: string): void {
    this.assertive = words;
  }

  async #end(id: number): Promise<void> {
    do await pause(SHOWN_MS);
    while (this.#held);
    this.remove(id);
  }

  async #speak(): Promise<void> {
    this.#speaking = true;
    for (let words = this.#queue.shift(); words !== undefined; words = this.#queue.shift()) {
      this.polite = words;
      await pause(ANNOUNCEMENT_MS);
    }
    this.#speaking = false;
  }
}

export const notes = new Notes();
