/** Assigns the errors of a refused start to the fields of its dialog; the others are shown below the fields by name. */

import type { StartFieldRecord } from "../api/schema";

export interface AssignedErrors {
  /** Errors by the name of the field for a value. */
  atValue: ReadonlyMap<string, readonly string[]>;
  /** Errors by the name of the field for files. */
  atFile: ReadonlyMap<string, readonly string[]>;
  /** Errors of the payload as a whole, and of values without a field. */
  ofPayload: readonly string[];
  /** Errors of the files as a whole, and of files without a field. */
  ofFiles: readonly string[];
  /** Whether there are errors, and every one is in one of these groups. */
  areAllAssigned: boolean;
}

type ErrorTarget = readonly [messages: Map<string, string[]>, name: string, prefix: string];

/** Parses the path of a file below `files` into its field and its index among several; null for any other path. */
function fileField(fields: readonly StartFieldRecord[], path: string): { name: string; index: number | null } | null {
  const fileField = fields.find(({ name }) => path === name || path.startsWith(`${name}.`));
  if (fileField) return { name: fileField.name, index: null };
  for (const { name, type } of fields) {
    const digits = type === "files" && path.startsWith(`${name}_`) ? /^\d+(?=\.|$)/.exec(path.slice(name.length + 1)) : null;
    if (digits) return { name, index: Number(digits[0]) };
  }
  return null;
}

/** Groups the errors of a refused start, given by path of the request, by where the dialog shows them. */
export function assignErrors(
  errors: Readonly<Record<string, readonly string[]>>, valueFields: readonly StartFieldRecord[], fileFields: readonly StartFieldRecord[],
): AssignedErrors {
  const atValue = new Map<string, string[]>();
  const atFile = new Map<string, string[]>();
  const general = new Map<string, string[]>();

  function targetOf(path: string): ErrorTarget | null {
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

  let areAllAssigned = Object.keys(errors).length > 0;
  for (const [path, messages] of Object.entries(errors)) {
    const target = targetOf(path);
    if (!target) {
      areAllAssigned = false;
      continue;
    }
    const [byName, name, prefix] = target;
    byName.set(name, [...new Set([...(byName.get(name) ?? []), ...messages.map((message) => prefix + message)])]);
  }
  return { atValue, atFile, ofPayload: general.get("payload") ?? [], ofFiles: general.get("files") ?? [], areAllAssigned };
}
