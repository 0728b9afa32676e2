/** Groups the overview's data, one line an automation. */

import type { ApprovalRecord, DayRecord, FailureRecord, NextRunRecord } from "../../api/schema";
import type { Bar } from "../../lib/charts";
import { instantOf } from "../../lib/time";
import { count, formatNumber } from "../../lib/words";

export interface Waiting {
  automation: string;
  name: string;
  store: string;
  approvals: number;
  changes: number;
  irreversible: number;
  /** The approval that expires first; its row opens it. */
  first: ApprovalRecord;
}

/** Groups waiting approvals by automation, the one that expires first on top. */
export function byAutomation(approvals: readonly ApprovalRecord[]): Waiting[] {
  const groups = new Map<string, Waiting>();
  for (const approval of [...approvals].sort((a, b) => a.expires_at.localeCompare(b.expires_at))) {
    const { total = 0, irreversible = 0 } = approval.counts as { total?: number; irreversible?: number };
    const group = groups.get(approval.automation_id);
    if (group) {
      group.approvals += 1;
      group.changes += total;
      group.irreversible += irreversible;
    } else {
      groups.set(approval.automation_id, {
        automation: approval.automation_id,
        name: approval.automation_name,
        store: approval.store_label,
        approvals: 1,
        changes: total,
        irreversible,
        first: approval,
      });
    }
  }
  return [...groups.values()];
}

/** Summarizes a week: "168 runs, 165 succeeded, 3 failed · 412 changes made, 9 left alone". */
export function weekWords(days: readonly DayRecord[]): string {
  const sum = (name: "succeeded" | "waiting" | "failed" | "stopped" | "changes_made" | "left_alone") =>
    days.reduce((total, day) => total + day[name], 0);
  const [succeeded, waiting, failed, stopped] = [sum("succeeded"), sum("waiting"), sum("failed"), sum("stopped")];
  const runs = succeeded + waiting + failed + stopped;
  const parts = [
    count(runs, "run"),
    `${formatNumber(succeeded)} succeeded`,
    ...(failed ? [`${formatNumber(failed)} failed`] : []),
    ...(waiting ? [`${formatNumber(waiting)} under way or waiting`] : []),
    ...(stopped ? [`${formatNumber(stopped)} not run or stopped`] : []),
  ];
  const alone = sum("left_alone");
  const changes = `${count(sum("changes_made"), "change")} made${alone ? `, ${formatNumber(alone)} left alone` : ""}`;
  return runs ? `${parts.join(", ")} · ${changes}` : "no runs";
}

const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });

/** Returns one bar a day, each with a link to the runs of that day. */
export function barsOf(days: readonly DayRecord[]): Bar[] {
  return days.map(({ day, succeeded, waiting, failed, stopped }) => {
    const title = DAY.format(new Date(`${day}T12:00Z`)).replace(",", "");
    return {
      key: day,
      title,
      caption: title.slice(0, 3),
      segments: [
        { tone: "good", value: succeeded, words: "succeeded" },
        { tone: "muted", value: stopped, words: "not run or stopped" },
        { tone: "warn", value: waiting, words: "under way or waiting" },
        { tone: "bad", value: failed, words: "failed" },
      ],
      to: { page: "runs", query: { mode: "live", from: day, to: day } },
    };
  });
}

/** Says what a failed run had changed: "Nothing was changed.", or how much. */
export function meanwhile({ run }: FailureRecord): string {
  const { applied = 0, sent = 0, unknown = 0 } = (run.summary?.counts ?? {}) as { applied?: number; sent?: number; unknown?: number };
  if (unknown) return `It is not known whether ${count(unknown, "change")} ${unknown === 1 ? "was" : "were"} made.`;
  if (applied || sent) {
    const parts = [...(applied ? [`${count(applied, "change")} made`] : []), ...(sent ? [`${formatNumber(sent)} sent`] : [])];
    return `${parts.join(", ")} before it failed.`;
  }
  return "Nothing was changed.";
}

/** Returns the connections that are being checked because a run on them failed within ten minutes. */
export function underCheck(failures: readonly FailureRecord[], now: number): { id: number; name: string; at: string }[] {
  const checked = new Map<number, { id: number; name: string; at: string }>();
  for (const { run, integration_id: id, connection_name: name, connection_checking: checking } of failures) {
    const endedAt = run.finished_at ?? run.queued_at;
    if (checking && id !== null && name !== null && now - instantOf(endedAt) < 600_000) checked.set(id, { id, name, at: endedAt });
  }
  return [...checked.values()];
}

const CADENCE: Readonly<Record<string, string>> = {
  hourly: "hourly",
  every_6_hours: "every 6 hours",
  daily: "daily",
  weekdays: "on weekdays",
  weekly: "weekly",
  monthly: "monthly",
  once: "once",
};

/** Describes how often an automation runs: "hourly, 10 more today". */
export function rhythm({ cadence, more_today: more }: NextRunRecord): string {
  const parts = [CADENCE[cadence] ?? cadence.replaceAll("_", " "), ...(more ? [`${more} more today`] : [])];
  return parts.join(", ");
}
