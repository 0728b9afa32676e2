/** The files of a manual start: chosen, encoded for the request, and their problems. */

import type { StartFieldRecord } from "../api/schema";
import type { Faults } from "./start_values";

/** The files chosen for a field, by the field's name. */
export type Chosen = Readonly<Record<string, readonly File[]>>;
export type StartFiles = Record<string, { data: string; file_name?: string; mime_type?: string }>;

export const MAX_FILES_BYTES = 5 * 1024 * 1024;
export const FILE_UNREADABLE = "The file cannot be read any more. Choose it again.";
export const FILES_TOO_LARGE = "The files have at most 5 MiB together. Choose smaller ones.";

const MIME_TYPE = /^[\w!#$&^.+-]{1,63}\/[\w!#$&^.+-]{1,127}$/;

/** The problems of the chosen files, by the field's name. */
export function fileFaults(fields: readonly StartFieldRecord[], chosen: Chosen): Faults {
  const missing = fields.filter(({ name, required }) => required && !chosen[name]?.length);
  return Object.fromEntries(missing.map(({ name }) => [name, ["The form requires this file. Choose one."]]));
}

/** Whether the files together exceed the service's limit. */
export function areTooLarge(chosen: Chosen): boolean {
  return Object.values(chosen).flat().reduce((sum, file) => sum + file.size, 0) > MAX_FILES_BYTES;
}

async function base64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const parts: string[] = [];
  for (let start = 0; start < bytes.length; start += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(start, start + 0x8000)));
  return btoa(parts.join(""));
}

/**
 * Encodes the files for the request; several files of one field are numbered, as n8n names them. Returns a problem if
 * a file cannot be read, for example because it was moved or changed after it was chosen.
 */
export async function readFiles(chosen: Chosen): Promise<{ files: StartFiles } | { fault: string }> {
  const files: StartFiles = {};
  try {
    for (const [name, list] of Object.entries(chosen)) {
      for (const [index, file] of list.entries()) {
        files[list.length > 1 ? `${name}_${index}` : name] = {
          data: await base64(file),
          file_name: file.name,
          ...(MIME_TYPE.test(file.type) && { mime_type: file.type }),
        };
      }
    }
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return { fault: FILE_UNREADABLE };
  }
  return { files };
}
