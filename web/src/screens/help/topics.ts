/** Assigns each screen the task or section of the guides that explains it. */

import type { PageName } from "../../router.svelte";

/** The tasks of docs/guides/merchants, in the order the help lists them. */
export const TASKS = [
  "connect-a-shop", "make-a-first-automation", "approve-changes", "put-changes-back", "import-a-workflow", "keep-times-closed",
  "choose-notifications",
] as const;

export const TOPICS: Readonly<Record<Exclude<PageName, "help">, string>> = {
  overview: "what-needs-you",
  "sign-in": "people",
  invitation: "people",
  choose: "people",
  "forgot-password": "people",
  "reset-password": "people",
  unsubscribe: "be-told",
  inbox: "be-told",
  account: "people",
  "account-notifications": "choose-notifications",
  automations: "set-up-an-automation",
  "new-automation": "make-a-first-automation",
  setup: "make-a-first-automation",
  automation: "set-up-an-automation",
  "automation-tab": "set-up-an-automation",
  calendar: "the-calendar",
  approvals: "approve-changes",
  review: "approve-changes",
  approval: "approve-changes",
  runs: "follow-a-run",
  run: "follow-a-run",
  imports: "import-a-workflow",
  "new-import": "import-a-workflow",
  import: "workflows-from-elsewhere",
  connections: "connect-a-shop",
  "new-connection": "connect-a-shop",
  connection: "connect-a-store",
  people: "people",
  organization: "the-organization",
  "audit-log": "the-organization",
  "api-access": "the-organization",
  "closed-times": "keep-times-closed",
  routes: "be-told",
  "new-route": "be-told",
  route: "be-told",
};
