/** Where the dialog that starts a run shows the errors of a refusal: at their field, else below the fields with their name. */

import type { StartFieldRecord } from "../api/schema";

export interface PlacedErrors {
  /** By the name of the field for a value. */
  atValue: ReadonlyMap<string, readonly string[]>;
  /** By the name of the field for files. */
  atFile: ReadonlyMap<string, readonly string[]>;
  /** Of the payload as a whole, and of values without a field. */
  ofPayload: readonly string[];
  /** Of the files as a whole, and of files without a field. */
  ofFiles: readonly string[];
  /** Whether there are errors, and each is in one of these places. */
  areAllPlaced: boolean;
}

type Place = readonly [messages: Map<string, string[]>, name: string, prefix: string];

/** The field of a file's path below `files`, and the file's place among several; null for another path. */
function fileField(fields: readonly StartFieldRecord[], path: string): { name: string; index: number | null } | null {
  const own = fields.find(({ name }) => path === name || path.startsWith(`${name}.`));
  if (own) return { name: own.name, index: null };
  for (const { name, type } of fields) {
    const digits = type === "files" && path.startsWith(`${name}_`) ? /^\d+(?=\.|$)/.exec(path.slice(name.length + 1)) : null;
    if (digits) return { name, index: Number(digits[0]) };
  }
  return null;
}

/** The errors of a refused start, by path of the request, in the places where its dialog shows them. */
export function placedErrors(
  errors: Readonly<Record<string, readonly string[]>>, valueFields: readonly StartFieldRecord[], fileFields: readonly StartFieldRecord[],
): PlacedErrors {
  const atValue = new Map<string, string[]>();
  const atFile = new Map<string, string[]>();
  const general = new Map<string, string[]>();

  function placeOf(path: string): Place | null {
    if (path === "payload" || path === "files") return [general, path, ""];
    if (path.startsWith("payload.")) {
      const name = path.slice("payload.".length);
      return valueFields.some((field) => field.name === name) ? [atValue, name, ""] : [general, "payload", `${name}: `];
    }
    if (!path.startsWith("files.")) return null;
    const below = path.slice("files.".length);
    const field = fileField(fileFields, below);
    if (!field) return [general, "files", `${below}: `];
    return [atFile, field.name, field.index === null ? "" : `File ${field.index + 1}: `];
  }

  let areAllPlaced = Object.keys(errors).length > 0;
  for (const [path, messages] of Object.entries(errors)) {
    const place = placeOf(path);
    if (!place) {
      areAllPlaced = false;
      continue;
    }
    const [byName, name, prefix] = place;
    byName.set(name, [...new Set([...(byName.get(name) ?? []), ...messages.map((message) => prefix + message)])]);
  }
  return { atValue, atFile, ofPayload: general.get("payload") ?? [], ofFiles: general.get("files") ?? [], areAllPlaced };
}
