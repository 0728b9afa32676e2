/** Notification preferences as text, and the mark of each topic (docs/design/api/notifications.md#preferences). */

import { daysWords } from "./schedule";
import { list, type Shown } from "./words";

export type Mode = "now" | "digest" | "off";
export type Group = "approvals" | "runs" | "automations" | "connections";

interface Days {
  days: readonly number[];
}

/** The preferences that the description needs. */
export interface Reach {
  email: Readonly<Record<Group, Mode>>;
  digest: Days & { at: string };
  quiet_hours: (Days & { from: string; to: string }) | null;
}

export const GROUPS: readonly { name: Group; words: string; about: string }[] = [
  { name: "approvals", words: "Approvals", about: "One waits, is about to expire, or has expired." },
  { name: "runs", words: "Runs", about: "One failed, failed in part, or its outcome is not known." },
  { name: "automations", words: "Automations", about: "One was paused by the service, has not succeeded for a while, or missed runs." },
  { name: "connections", words: "Connections", about: "One needs reconnecting, or a channel no longer takes messages." },
];

export const MODES: Readonly<Record<Mode, string>> = { now: "At once", digest: "In the digest", off: "No e-mail" };

/** Lists days: "every day", "Monday to Friday", "Monday, Wednesday and Friday". */
export function onDays(days: readonly number[]): string {
  return days.length === 7 ? "every day" : daysWords(days);
}

/** Describes preferences: "Approvals by e-mail at once; everything else in the digest at 08:00, Monday to Friday." */
export function reachWords(reach: Reach, mail: boolean): string {
  if (!mail) return "Notices are shown in the app only. No e-mail is sent, because this service has no mail server.";
  const how: Record<Mode, string> = {
    now: "by e-mail at once",
    digest: `in the digest at ${reach.digest.at}, ${onDays(reach.digest.days)}`,
    off: "in the app only",
  };
  const modes = (Object.keys(how) as Mode[])
    .map((mode) => ({ mode, groups: GROUPS.filter(({ name }) => reach.email[name] === mode) }))
    .filter(({ groups }) => groups.length);
  const parts = modes.map(({ mode, groups }, index) => {
    const rest = modes.length > 1 && index === modes.length - 1 && groups.length > 1;
    const who = modes.length === 1 ? "everything" : rest ? "everything else" : list(groups.map(({ words }) => words.toLowerCase()));
    return `${who} ${how[mode]}`;
  });
  const quiet = reach.quiet_hours;
  const hours = quiet ? `; quiet from ${quiet.from} to ${quiet.to}, ${onDays(quiet.days)}` : "";
  const sentence = `${parts.join("; ")}${hours}.`;
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

const shown = (words: string, shape: Shown["shape"], tone: Shown["tone"]): Shown => ({ words, shape, tone });

/** The topics with their label in the route filter and their mark in the list of notices. */
export const TOPICS: Readonly<Record<string, Shown & { group: Group }>> = {
  approval_waiting: { ...shown("An approval waits", "hand", "warn"), group: "approvals" },
  approval_expiring: { ...shown("An approval is about to expire", "clock", "warn"), group: "approvals" },
  approval_expired: { ...shown("An approval expired", "clock", "bad"), group: "approvals" },
  run_failed: { ...shown("A run failed", "cross", "bad"), group: "runs" },
  run_partly_failed: { ...shown("A run failed in part", "cross", "bad"), group: "runs" },
  run_outcome_unknown: { ...shown("A run's outcome is not known", "question", "warn"), group: "runs" },
  automation_paused: { ...shown("The service paused an automation", "pause", "warn"), group: "automations" },
  automation_quiet: { ...shown("An automation has not succeeded for a while", "hand", "warn"), group: "automations" },
  slot_too_late: { ...shown("Runs could not start in time", "bar", "warn"), group: "automations" },
  slot_missing: { ...shown("Runs were missing from the schedule", "bar", "warn"), group: "automations" },
  events_dropped: { ...shown("Events of a store were dropped", "bar", "warn"), group: "automations" },
  changes_stopped: { ...shown("Changes are stopped or resumed", "pause", "info"), group: "automations" },
  connection_lost: { ...shown("A connection needs reconnecting", "hand", "bad"), group: "connections" },
  route_broken: { ...shown("A channel no longer accepts messages", "cross", "bad"), group: "connections" },
};

export type ChannelName = "teams" | "slack" | "webhook";

/** The kinds of channels that notices go to, besides people. */
export const CHANNELS: Readonly<Record<ChannelName, { name: string; about: string }>> = {
  teams: { name: "Microsoft Teams", about: "A card in a Teams channel" },
  slack: { name: "Slack", about: "A message in a Slack channel" },
  webhook: { name: "Webhook", about: "A signed call to a program of yours" },
};

/** Returns the mark of a notice; a plain dot for an unknown topic. */
export function topicOf(topic: string): Shown {
  return TOPICS[topic] ?? shown("A notice", "dot", "plain");
}

/** Returns what a delivery reports, from its `type`. */
export function deliveryWords(type: string): string {
  if (type === "notification.test") return "A test message";
  return type === "notices.grouped" ? "Several notices" : topicOf(type.replace(".", "_")).words;
}

/** Returns the path of a notice's page in this app, whatever origin its link names. */
export function pathOf(url: string): string {
  const { pathname, search } = new URL(url, location.origin);
  return pathname + search;
}
