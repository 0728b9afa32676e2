/** The texts of records, codes and kinds that the first screen does not need; see words.ts. */

import { formatNumber, shown, type Table } from "./words";

export const OUTCOME: Table = {
  proposed: shown("Proposed", "circle", "info"),
  approved: shown("Will be made", "dot", "info"),
  declined: shown("Left out", "bar", "muted"),
  applied: shown("Made", "tick", "good"),
  unchanged: shown("Already so", "tick", "muted"),
  conflict: shown("Changed in the meantime, left unchanged", "bar", "warn"),
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

/** The status of a step whose approval has been decided. */
export const ASKED = shown("Asked for approval", "hand", "muted");

export const PERSON: Table = {
  invited: shown("Invited", "circle", "info"),
  active: shown("Active", "tick", "good"),
  deactivated: shown("Removed", "square", "muted"),
};

/** The kinds of connections: their name, and a phrase for one of them. */
export const CONNECTION_KINDS: Readonly<Record<string, { name: string; singular: string }>> = {
  woocommerce: { name: "WooCommerce", singular: "WooCommerce store" },
  shopify: { name: "Shopify", singular: "Shopify store" },
  spreadsheet: { name: "Google Sheets", singular: "spreadsheet" },
  teams: { name: "Microsoft Teams", singular: "Teams channel" },
  cloud_s3: { name: "Cloud storage", singular: "cloud storage" },
  slack: { name: "Slack", singular: "Slack connection" },
  telegram: { name: "Telegram", singular: "Telegram bot" },
  discord: { name: "Discord", singular: "Discord connection" },
  mattermost: { name: "Mattermost", singular: "Mattermost account" },
  twilio: { name: "Twilio", singular: "Twilio account" },
  whatsapp: { name: "WhatsApp", singular: "WhatsApp number" },
  airtable: { name: "Airtable", singular: "Airtable account" },
  notion: { name: "Notion", singular: "Notion integration" },
  http_api: { name: "HTTP API", singular: "account of an HTTP API" },
  gmail: { name: "Gmail", singular: "Gmail mailbox" },
  microsoft_outlook: { name: "Microsoft Outlook", singular: "Outlook mailbox" },
  google_drive: { name: "Google Drive", singular: "Google Drive" },
  smtp: { name: "Mail server", singular: "mail account" },
  store: { name: "Store", singular: "store" },
  channel: { name: "Channel", singular: "channel" },
};

export const CATEGORY: Readonly<Record<string, string>> = {
  stock: "Stock",
  prices: "Prices",
  orders: "Orders",
  customers: "Customers",
  products: "Products",
  reports: "Reports",
};

/** The kinds of a run's steps. */
export const STEP_KIND: Readonly<Record<string, string>> = {
  read: "Reads",
  decide: "Decides",
  change: "Changes",
  send: "Sends",
  wait: "Waits",
};

/** The actions of changes; the most frequent one, an update, is not named. */
export const ACTION: Readonly<Record<string, string>> = {
  create: "Create",
  update: "Update",
  delete: "Delete",
  cancel: "Cancel",
  archive: "Archive",
  publish: "Publish",
  unpublish: "Hide",
  hold: "Hold",
  send: "Send",
};

/** The counts of a step or run, in the order they are shown. */
export const COUNTS: readonly (readonly [string, string])[] = [
  ["read", "read"],
  ["matched", "matched"],
  ["proposed", "proposed"],
  ["applied", "made"],
  ["unchanged", "already up to date"],
  ["declined", "left out"],
  ["conflicts", "changed in the meantime"],
  ["failed", "failed"],
  ["sent", "sent"],
  ["unknown", "not known"],
];

/** Why a run ended, for endings without a message (docs/design/api/runs.md#states). */
export const RUN_CODE: Readonly<Record<string, string>> = {
  not_connected: "Its store or an account is not connected. Reconnect it, then run again.",
  not_ready: "A step has no usable connection. Choose one, then run again.",
  switched_off: "Automations were switched off.",
  event_too_large: "The event of the store was larger than 256 KB.",
  too_many_waiting: "Too many of its runs were waiting already.",
  superseded: "The automation's steps were changed in the meantime. Run it again.",
  archived: "The automation was archived.",
  by_person: "A person stopped it.",
  paused: "The automation was paused.",
  not_started: "It could not start within a day.",
  step_failed: "A step failed.",
  too_many_changes: "It found more changes than its limit allows.",
  timed_out: "It took longer than a run is allowed to.",
  interrupted: "It was interrupted by the service. Run it again.",
  rejected: "A person rejected its changes.",
  approval_expired: "Nobody decided on its changes in time.",
  some_changes_failed: "Some of its changes failed.",
  all_conflicted: "Everything it would have changed was changed in the meantime and left unchanged.",
  outcome_unknown: "It is not known whether some changes were made. Check them in the store.",
  approval_mismatch: "The approved changes differ from what would be done. Nothing was changed.",
  too_much_data: "A step returned more data than a run may store.",
};

export const MODES: Readonly<Record<string, string>> = { live: "Live", test: "Test" };

const ABBREVIATIONS: Readonly<Record<string, string>> = { sku: "SKU", skus: "SKUs", id: "ID", ids: "IDs", url: "URL", urls: "URLs" };

/** Turns a code into words: "inventory_item" is "Inventory item". */
export function plainName(key: string): string {
  const words = key.replaceAll(/[_-]+/g, " ").replaceAll(/([a-z])([A-Z])/g, "$1 $2").trim().toLowerCase();
  return (words.charAt(0).toUpperCase() + words.slice(1)).replaceAll(/\b(skus?|ids?|urls?)\b/gi, (name) => ABBREVIATIONS[name.toLowerCase()] ?? name);
}

/** Names the actions beside their total: "Update"; "12 to update, 1 to delete" if there are several. */
export function actionWords(counts: Readonly<Record<string, number>>): string {
  const [action, second] = Object.keys(counts).filter((name) => counts[name]);
  return action && !second ? (ACTION[action] ?? plainName(action)) : byAction(counts);
}

/** "12 to update, 1 to delete". */
export function byAction(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .filter(([, number]) => number)
    .map(([action, number]) => `${formatNumber(number)} to ${(ACTION[action] ?? plainName(action)).toLowerCase()}`)
    .join(", ");
}

/** Lists counts: "214 read · 12 matched"; empty if all are zero. */
export function countsIn(counts: Readonly<Record<string, number>>): string {
  return COUNTS.filter(([name]) => counts[name])
    .map(([name, words]) => `${formatNumber(counts[name]!)} ${words}`)
    .join(" · ");
}
