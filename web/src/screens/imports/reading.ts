/** An export before it is sent: recognizes its source and name, and checks its size. */

export type Source = "workflow_tool" | "store_flow";

export const SOURCES: Readonly<Record<Source, { name: string; hint: string }>> = {
  workflow_tool: { name: "n8n", hint: "A workflow downloaded from n8n, a .json file" },
  store_flow: { name: "Shopify Flow", hint: "A workflow exported from Shopify Flow, a .flow file" },
};

/** The service's limit in bytes (docs/design/api/conventions.md#requests). */
export const MAX_BYTES = 2 * 1024 * 1024;
const MAX_NAME = 120;
const CHECKSUM = /^[0-9a-f]{64}:/;

/** Guesses the source of an export; null if it is neither. */
export function guessed(text: string): Source | null {
  const start = text.trimStart();
  if (CHECKSUM.test(start)) return "store_flow";
  const document = parsed(start);
  if (document === null) return null;
  if ("root" in document && "__metadata" in document) return "store_flow";
  return "nodes" in document || "connections" in document ? "workflow_tool" : null;
}

/** Proposes a name: the workflow's own, else the file's without its extension. */
export function proposedName(text: string, file: string | null): string {
  const document = parsed(text.trimStart().replace(CHECKSUM, ""));
  const root = document?.root;
  const workflowName = [document?.name, isObject(root) ? root.workflow_name : null].find((name) => typeof name === "string" && name.trim()) as string | undefined;
  return (workflowName ?? file?.replace(/\.[A-Za-z0-9]{1,8}$/, "") ?? "").trim().slice(0, MAX_NAME);
}

/** Says why the text cannot be sent; null if it can. */
export function tooLarge(text: string): string | null {
  const bytes = new TextEncoder().encode(JSON.stringify(text)).length;
  if (bytes <= MAX_BYTES - 1024) return null;
  return `This is ${(bytes / 1024 / 1024).toFixed(1)} MB; at most 2 MB can be read. Split the workflow, or remove the data pinned to its steps.`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses the object of an export, ignoring text around it; null if there is none. */
function parsed(text: string): Record<string, unknown> | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (Array.isArray(value) && value.length === 1) value = value[0];
  if (isObject(value) && isObject(value.workflow) && !("nodes" in value)) value = value.workflow;
  return isObject(value) ? value : null;
}
