/** The results of the search: records that the service finds, screens and actions, in groups. */

import { NAVIGATION } from "../layout/navigation";
import { address, type PageName } from "../router.svelte";
import type { SearchResponse } from "../api/schema";
import { APPROVAL, CONNECTION_KINDS } from "./record_words";
import { AUTOMATION, CONNECTION, count, RUN, type Shown, statusOf } from "./words";

export interface Option {
  key: string;
  words: string;
  /** The second line: what the result belongs to. */
  beside?: string;
  at?: string;
  state?: Shown;
  target: string;
}

export interface Group {
  title: string;
  options: readonly Option[];
}

/** Screens that are not in the navigation. */
const OTHER_PAGES: readonly (readonly [PageName, string])[] = [
  ["new-automation", "New automation"],
  ["new-connection", "New connection"],
  ["new-import", "New import"],
  ["inbox", "Notices"],
  ["organization", "Organization"],
  ["closed-times", "Closed times"],
  ["audit-log", "Audit log"],
  ["api-access", "API credentials"],
  ["routes", "Channels of notifications"],
  ["account", "Account"],
  ["account-notifications", "What reaches me"],
  ["help", "Help"],
];
const SHOWN = 6;

/** Whether each word of the query begins a word of the text. */
export function beginsWords(text: string, query: string): boolean {
  const words = text.toLowerCase().split(/\s+/);
  return query.toLowerCase().split(/\s+/).every((wanted) => words.some((word) => word.startsWith(wanted)));
}

export function screens(query: string): Group {
  const all = [...NAVIGATION.map(({ page, words }) => [page, words] as const), ...OTHER_PAGES];
  const options = all
    .filter(([, words]) => beginsWords(words, query.trim()))
    .map(([page, words]) => ({ key: `screen-${page}`, words, target: address(page) }));
  return { title: "Screens", options };
}

function runOption(run: SearchResponse["runs"][number], kind: string): Option {
  const { id, object_label: label, automation_name: name } = run;
  const words = label ?? name;
  return {
    key: `${kind}-${id}`,
    words,
    beside: label ? name : id,
    at: run.queued_at,
    state: statusOf(RUN, run.status, run.message),
    target: address("run", { id }, { tab: label ? "changes" : undefined }),
  };
}

/** Returns the groups that have results, in the order they are shown. */
export function groups(query: string, response: SearchResponse | undefined): readonly Group[] {
  const changes = response?.changes ?? [];
  const all: Option = { key: "all", words: `All runs with “${query}”`, target: address("runs", {}, { q: query }) };
  const groups: Group[] = [
    {
      title: "Approvals",
      options: (response?.approvals ?? []).slice(0, SHOWN).map((approval) => ({
        key: `approval-${approval.id}`,
        words: approval.automation_name,
        beside: `${count(approval.total, "change")} · ${approval.store_label}`,
        state: statusOf(APPROVAL, approval.status),
        target: address("approval", { id: approval.id }),
      })),
    },
    {
      title: "Automations",
      options: (response?.automations ?? []).slice(0, SHOWN).map(({ id, name, state, store_label: store }) => ({
        key: `automation-${id}`,
        words: name,
        beside: store,
        state: statusOf(AUTOMATION, state),
        target: address("automation", { id }),
      })),
    },
    { title: "Runs", options: (response?.runs ?? []).slice(0, SHOWN).map((run) => runOption(run, "run")) },
    {
      title: "Products, orders and other changes",
      options: changes.length ? [...changes.slice(0, SHOWN).map((run) => runOption(run, "change")), all] : [],
    },
    {
      title: "Connections",
      options: (response?.connections ?? []).slice(0, SHOWN).map((connection) => ({
        key: `connection-${connection.integration_id}`,
        words: connection.name,
        beside: CONNECTION_KINDS[connection.kind]?.name ?? connection.kind,
        state: statusOf(CONNECTION, connection.state),
        target: address("connection", { id: connection.integration_id }),
      })),
    },
    screens(query),
  ];
  return groups.filter(({ options }) => options.length);
}
