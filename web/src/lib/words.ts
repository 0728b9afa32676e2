/** The texts that the first screen needs; the others are in record_words.ts. A translation adds a file like each. */

export type Tone = "good" | "warn" | "bad" | "info" | "muted" | "plain";
export type Shape =
  | "circle" | "half" | "hand" | "tick" | "cross" | "bar" | "square" | "clock" | "pause" | "dot" | "arrow" | "question";

export interface Shown {
  words: string;
  shape: Shape;
  tone: Tone;
}

export type Table = Readonly<Record<string, Shown>>;

export const shown = (words: string, shape: Shape, tone: Tone): Shown => ({ words, shape, tone });

export const RUN: Table = {
  queued: shown("Waiting to start", "circle", "info"),
  running: shown("Running", "half", "info"),
  waiting_approval: shown("Waiting for approval", "hand", "warn"),
  succeeded: shown("Done", "tick", "good"),
  failed: shown("Failed", "cross", "bad"),
  refused: shown("Not run", "bar", "muted"),
  cancelled: shown("Stopped", "square", "muted"),
  expired: shown("Expired", "clock", "muted"),
};

export const AUTOMATION: Table = {
  draft: shown("Draft", "circle", "muted"),
  active: shown("On", "tick", "good"),
  paused: shown("Paused", "pause", "muted"),
  paused_by_service: shown("Paused by the service", "pause", "warn"),
  archived: shown("Archived", "square", "muted"),
};

export const CONNECTION: Table = {
  connected: shown("Connected", "tick", "good"),
  needs_reconnecting: shown("Needs reconnecting", "hand", "warn"),
  disconnected: shown("Disconnected", "cross", "bad"),
};

/** Returns a status as shown; an unknown one with the service's words, never as a bare code. */
export function statusOf(table: Table, code: string, message?: string | null): Shown {
  return table[code] ?? shown(message || "Another state; reload the page", "dot", "plain");
}

export const ROLES: Readonly<Record<string, { name: string; words: string }>> = {
  member: { name: "Member", words: "Sees everything, sets up automations, starts and stops runs." },
  approver: { name: "Approver", words: "Does what a member does, and approves or rejects changes." },
  owner: { name: "Owner", words: "Does what an approver does, and manages connections, people and the organization." },
};

export const STARTED_BY: Readonly<Record<string, string>> = {
  schedule: "By schedule",
  event: "By a store event",
  hand: "By hand",
};

/** Texts of refusals that are shown instead of the service's message. */
export const REFUSALS = {
  offline: "The service cannot be reached.",
  sign_in: "The e-mail or the password is not right. Check both and try again.",
  not_found: "This does not exist, or belongs to another organization.",
  approvers_only: "Only approvers can do this.",
  owners_only: "Only owners can do this.",
  switched_off: "Automations are switched off for this organization.",
} as const;

/** "1 change", "38 changes". */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${formatNumber(number)} ${number === 1 ? one : many}`;
}

/** Says how many automations need a connection; "or more" if not all were counted. */
export function usedBy({ used_by, used_by_more }: { used_by?: number; used_by_more?: boolean }): string {
  if (used_by_more) return used_by ? `${count(used_by, "automation")} or more` : "not known";
  return used_by ? count(used_by, "automation") : "not used";
}

/** "3,120". */
export function formatNumber(number: number): string {
  return number.toLocaleString("en-GB");
}

/** "A", "A and B", "A, B and C". */
export function list(names: readonly string[]): string {
  if (names.length < 2) return names[0] ?? "";
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

const MAX_NAMED = 5;

/** "“A” and “B”", and from six names on "“A”, “B”, “C”, “D”, “E” and 2 more". */
export function quoted(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return list([...names.slice(0, MAX_NAMED).map((name) => `“${name}”`), ...(more > 0 ? [`${more} more`] : [])]);
}
