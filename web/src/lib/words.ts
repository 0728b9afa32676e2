/** Every fixed phrase of statuses and codes (web 4): a translation is one more file like this one. */

export type Tone = "good" | "warn" | "bad" | "info" | "muted" | "plain";
export type Shape =
  | "circle" | "half" | "hand" | "tick" | "cross" | "bar" | "square" | "clock" | "pause" | "dot" | "arrow" | "question";

export interface Shown {
  words: string;
  shape: Shape;
  tone: Tone;
}

type Table = Readonly<Record<string, Shown>>;

const shown = (words: string, shape: Shape, tone: Tone): Shown => ({ words, shape, tone });

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

export const OUTCOME: Table = {
  proposed: shown("Proposed", "circle", "info"),
  approved: shown("Will be made", "dot", "info"),
  declined: shown("Left out", "bar", "muted"),
  applied: shown("Made", "tick", "good"),
  unchanged: shown("Already so", "tick", "muted"),
  conflict: shown("Changed meanwhile, left alone", "bar", "warn"),
  failed: shown("Failed", "cross", "bad"),
  unknown: shown("Not known, check the store", "question", "warn"),
  refused_test: shown("Not made (test)", "bar", "info"),
  expired: shown("Expired", "clock", "muted"),
  cancelled: shown("Stopped", "square", "muted"),
};

export const APPROVAL: Table = {
  pending: shown("Waiting for approval", "hand", "warn"),
  approved: shown("Approved", "tick", "good"),
  partly_approved: shown("Approved in part", "tick", "good"),
  rejected: shown("Rejected", "cross", "muted"),
  expired: shown("Expired", "clock", "muted"),
  superseded: shown("Set aside", "bar", "muted"),
  cancelled: shown("Stopped", "square", "muted"),
};

export const CONNECTION: Table = {
  connected: shown("Connected", "tick", "good"),
  needs_reconnecting: shown("Needs reconnecting", "hand", "warn"),
  disconnected: shown("Disconnected", "cross", "bad"),
};

export const COMING: Table = {
  pending: shown("Coming", "circle", "info"),
  projected: shown("Expected", "circle", "muted"),
  moved: shown("Moved", "arrow", "info"),
  queued: shown("Started", "half", "info"),
  by_merchant: shown("Skipped by a person", "bar", "muted"),
  skipped_previous_running: shown("Skipped: the run before was still going", "bar", "warn"),
  skipped_waiting_approval: shown("Skipped: the run before waits for approval", "bar", "warn"),
  skipped_too_late: shown("Skipped: it could not start in time", "bar", "warn"),
  skipped: shown("Skipped", "bar", "muted"),
};

export const STEP: Table = {
  succeeded: shown("Done", "tick", "good"),
  failed: shown("Failed", "cross", "bad"),
  skipped: shown("Left out", "bar", "muted"),
  refused: shown("Not made", "bar", "muted"),
  held: shown("Waits for approval", "hand", "warn"),
};

export const PERSON: Table = {
  invited: shown("Invited", "circle", "info"),
  active: shown("Active", "tick", "good"),
  deactivated: shown("Removed", "square", "muted"),
};

/** A status as shown; one this app does not know is shown by the service's own words, never as a bare code. */
export function statusOf(table: Table, code: string, message?: string | null): Shown {
  return table[code] ?? shown(message || "Another state; reload the page", "dot", "plain");
}

export const ROLES: Readonly<Record<string, { name: string; words: string }>> = {
  member: { name: "Member", words: "Sees everything, sets up automations, starts and stops runs." },
  approver: { name: "Approver", words: "As a member, and approves or rejects changes." },
  owner: { name: "Owner", words: "As an approver, and keeps connections, people and the organisation." },
};

export const STARTED_BY: Readonly<Record<string, string>> = {
  schedule: "By schedule",
  event: "By an event of the store",
  hand: "By hand",
};

/** What a refusal means where the service's message needs no repeating. */
export const REFUSALS = {
  offline: "The service cannot be reached.",
  sign_in: "The e-mail or the password is not right. Check both and try again.",
  not_found: "This does not exist, or belongs to another organisation.",
  approvers_only: "Only approvers can do this.",
  owners_only: "Only owners can do this.",
  switched_off: "Automations are switched off for this organisation.",
} as const;

/** "1 change", "38 changes". */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${figures(number)} ${number === 1 ? one : many}`;
}

/** "3,120". */
export function figures(number: number): string {
  return number.toLocaleString("en-GB");
}

/** "A", "A and B", "A, B and C". */
export function list(names: readonly string[]): string {
  if (names.length < 2) return names[0] ?? "";
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
