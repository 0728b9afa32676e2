/** CSV exports, with protection against formula injection. */

import type { ChangeRecord, RunRecord } from "../api/schema";
import { differenceOf, linesOf, undoneWords, valueOf } from "./changes";
import { RUN, STARTED_BY } from "./words";

const NUMBER = /^[+-]?\d+(\.\d+)?$/;
const STARTS = /^(?:[\t\r]|\s*[=+\-@\uff0b\uff0d\uff1d\uff20])/;

/** Formats one cell; text that a spreadsheet would evaluate as a formula is neutralized. */
export function cell(value: string): string {
  const safe = STARTS.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n\t]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const HEAD = [
  "Change", "Object", "Name", "Id", "Link", "Action", "Field", "Before", "After", "Currency", "Difference", "Percent",
  "Cannot be undone", "Left out", "Outcome", "Undo", "Note",
];

/** Exports changes, one line a field, in the given order. */
export function csvOf(changes: readonly ChangeRecord[], leftOut: ReadonlySet<string>, changedSince: ReadonlySet<string>): string {
  const lines = linesOf(changes).map(({ change, field }) => {
    const difference = field && differenceOf(field);
    const plain = { kind: field?.kind ?? "text", currency: null };
    return [
      change.id,
      change.object.type,
      change.object.label,
      change.object.id ?? "",
      change.object.url ?? "",
      change.action,
      field?.label ?? "",
      (field && valueOf(field.before, plain)) ?? "",
      (field && valueOf(field.after, plain)) ?? "",
      field?.currency ?? "",
      difference?.words.replace("−", "-") ?? "",
      difference?.percent == null ? "" : String(Number(difference.percent.toFixed(2))),
      change.reversible ? "" : "yes",
      leftOut.has(change.id) ? "yes" : "",
      change.outcome,
      undoneWords(change, changedSince),
      change.message ?? "",
    ];
  });
  return [HEAD, ...lines].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

export interface ListedRun extends RunRecord {
  store: string;
}

const RUN_HEAD = ["Run", "Automation", "Store", "State", "Code", "Test", "Started by", "Queued", "Started", "Finished", "Read", "Proposed", "Made", "Left out", "Failed", "Result"];

/** Exports runs, one line each, newest first. */
export function runsCsv(runs: readonly ListedRun[]): string {
  const lines = runs.map((run) => {
    const counts = run.summary?.counts;
    return [
      run.id,
      run.automation_name,
      run.store,
      RUN[run.status]?.words ?? run.status,
      run.code ?? "",
      run.mode === "test" ? "yes" : "",
      STARTED_BY[run.started_by] ?? run.started_by,
      run.queued_at,
      run.started_at ?? "",
      run.finished_at ?? "",
      ...[counts?.read, counts?.proposed, counts?.applied, counts?.declined, counts?.failed].map((number) => String(number ?? "")),
      run.message ?? run.summary?.text ?? "",
    ];
  });
  return [RUN_HEAD, ...lines].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Offers a file as a download. */
export function saveFile(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
