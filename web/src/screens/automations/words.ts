/** Texts about automations: state, trigger, and history. */

import type { AutomationRecord, HistoryRecord } from "../../api/schema";
import { scheduleWords } from "../../lib/schedule";
import { AUTOMATION, type Shown, statusOf } from "../../lib/words";

export function stateOf({ state, paused_by }: Pick<AutomationRecord, "state" | "paused_by">): Shown {
  return statusOf(AUTOMATION, state === "paused" && paused_by === "system" ? "paused_by_service" : state);
}

/** Describes what starts it: "Every day at 06:00", "When an order is created". */
export function startsWords({ schedule, trigger }: Pick<AutomationRecord, "schedule" | "trigger">): string {
  return trigger.kind === "event" ? (trigger.words ?? "When the store sends something") : scheduleWords(schedule);
}

const DONE: Readonly<Record<string, string>> = {
  created: "Set up",
  changed: "Changed",
  paused: "Paused",
  resumed: "Switched on",
  archived: "Archived",
  restored: "Restored",
  moved: "Moved a run",
  skipped: "Skipped a run",
  unskipped: "Took a skip back",
};

export function doneWords(entry: Pick<HistoryRecord, "action">): string {
  return DONE[entry.action] ?? "Changed";
}

/** Says who did it, and through which interface. */
export function whoWords({ person, via, api_client_id }: Pick<HistoryRecord, "person" | "via" | "api_client_id">): string {
  const name = person ? `${person.first_name} ${person.last_name}`.trim() : "";
  if (via === "service") return "the service";
  return via === "api-token" ? `${name || "a person"} through the API (${api_client_id ?? "credential not known"})` : name || "a person";
}

const LISTENING: Readonly<Record<string, string>> = {
  yes: "The store sends it.",
  not_yet: "The store is being asked to send it.",
  failed: "The store is not listened to.",
};

/** Returns whether the events that start it arrive; null for other triggers. */
export function listeningWords({ trigger }: Pick<AutomationRecord, "trigger">): string | null {
  if (trigger.kind !== "event") return null;
  const words = LISTENING[trigger.listening];
  return words ? `${words}${trigger.reason ? ` ${trigger.reason}` : ""}` : null;
}

/** Says which actions its state allows (docs/design/api/automations.md#states). */
export function allowed({ state, trigger, schedule }: Pick<AutomationRecord, "state" | "trigger" | "schedule">) {
  return {
    pause: state === "active",
    resume: state === "paused" || (state === "draft" && (trigger.kind === "event" || schedule.cadence !== "manual")),
    archive: state !== "archived",
    restore: state === "archived",
    run: state !== "archived",
  };
}
