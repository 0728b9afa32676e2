/** What to do about a failed run, by the codes of the run and of the failed step. */

export interface Advice {
  words: string;
  /** Whether the connection needs new credentials. */
  reconnect: boolean;
  /** Whether the automation's inputs or steps need to change: running it again unchanged would fail again. */
  edit: boolean;
}

const OF_STEPS: Readonly<Record<string, string>> = {
  unauthorized: "Reconnect it with a key that works, then run again.",
  forbidden: "Give its key the missing right, or reconnect it with another key, then run again.",
  wrong_address: "Check the address of the account, reconnect it, then run again.",
  unavailable: "It may answer again by now: check the connection, then run again.",
  throttled: "Wait a few minutes, then run again.",
  not_found: "Check that it is still there, then run again.",
  invalid: "Correct what it names, in the automation or at the account, then run again.",
  refused: "Correct what it names, in the automation or at the account, then run again.",
  stale: "Run again to read the current values.",
  broken: "Check the connection. If it keeps failing, tell the person who manages the account.",
};
const OF_RUNS: Readonly<Record<string, string>> = {
  some_changes_failed: "Look at the changes that failed, then run again: what was made is not made twice.",
  all_conflicted: "Run again to read the current values.",
  outcome_unknown: "Check those changes in the store before you run again.",
  too_many_changes: "Raise the limit in the automation's inputs, or narrow down what it looks for, then run again.",
  too_much_data: "Narrow down what it reads, then run again.",
  timed_out: "Narrow down what it reads, then run again.",
  interrupted: "Run again.",
};
/** Codes that a change of inputs or steps fixes. */
const EDIT = new Set([
  "invalid", "refused", "too_many_changes", "too_much_data", "timed_out",
  "channel_missing", "field_missing", "location_missing", "location_needed", "tab_missing", "wrong_header",
]);
const RECONNECT = new Set(["unauthorized", "forbidden", "wrong_address"]);

export function adviceOf(run: string | null, step: string | null): Advice {
  const words = (step && OF_STEPS[step]) ?? (run && OF_RUNS[run]) ?? "Correct the automation, then run again.";
  const reconnect = step !== null && RECONNECT.has(step);
  // A step's `step_failed` means that the step itself failed; a run's code of that name says nothing about its steps.
  const edit = step === "step_failed" || [step, run].some((code) => code !== null && EDIT.has(code));
  return { words, reconnect, edit: edit && !reconnect };
}
