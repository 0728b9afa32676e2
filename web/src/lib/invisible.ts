/** Finds and names invisible characters in text from stores. */

export interface Piece {
  text: string;
  /** The name of the invisible character; null for visible text. */
  name: string | null;
}

const NAMES: Readonly<Record<number, string>> = {
  0x00: "null",
  0x08: "backspace",
  0x09: "tab",
  0x0a: "line feed",
  0x0b: "vertical tab",
  0x0c: "form feed",
  0x0d: "carriage return",
  0x1b: "escape",
  0x7f: "delete",
  0x85: "next line",
  0xa0: "no-break space",
  0xad: "soft hyphen",
  0x034f: "grapheme joiner",
  0x061c: "Arabic letter mark",
  0x115f: "Hangul filler",
  0x1160: "Hangul filler",
  0x180e: "vowel separator",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "end of direction",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first-strong isolate",
  0x2069: "end of isolate",
  0x2800: "blank pattern",
  0x3164: "Hangul filler",
  0xfeff: "byte order mark",
  0xffa0: "Hangul filler",
};

// Controls, formats (zero-width, bidirectional, tags), separators, lone surrogates, private use, fillers.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u00a0\u034f\u115f\u1160\u2800\u3164\uffa0]/gu;
// A joiner between two emoji makes one emoji of them, so its effect is visible.
const JOINED = /(?<=\p{Extended_Pictographic}\ufe0f?)\u200d(?=\p{Extended_Pictographic})/u;

function nameOf(character: string): string {
  const code = character.codePointAt(0)!;
  const hex = code.toString(16).toUpperCase().padStart(4, "0");
  return NAMES[code] ?? (code < 0x20 || (code >= 0x80 && code < 0xa0) ? `control U+${hex}` : `U+${hex}`);
}

/** Splits text into pieces: visible text, or one invisible character with its name. */
export function pieces(text: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    const index = match.index;
    if (match[0] === "\u200d" && isJoiner(text, index)) continue;
    if (index > from) pieces.push({ text: text.slice(from, index), name: null });
    pieces.push({ text: match[0], name: nameOf(match[0]) });
    from = index + match[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), name: null });
  return pieces;
}

function isJoiner(text: string, index: number): boolean {
  // Two UTF-16 units and a variation selector on each side are enough to decide.
  return JOINED.test(text.slice(Math.max(0, index - 3), index + 3));
}

/** Whether the text contains an invisible character. */
export function hasInvisible(text: string): boolean {
  return pieces(text).some(({ name }) => name !== null);
}

/** Removes invisible characters, for places that cannot mark them, such as the page title and options of a select. */
export function visible(text: string): string {
  return pieces(text).map(({ text, name }) => (name === null ? text : /\s/.test(text) ? " " : "")).join("");
}

/** Returns an address if it is https, and may thus be a link; null for any other. */
export function safeLink(address: string): { href: string; host: string } | null {
  try {
    const url = new URL(address);
    return url.protocol === "https:" ? { href: url.href, host: url.host } : null;
  } catch {
    return null;
  }
}
