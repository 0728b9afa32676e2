/** The tabs of the organization, each with its address. */

import { address, type PageName } from "../../router.svelte";

const PARTS: readonly { page: PageName; words: string }[] = [
  { page: "organization", words: "Settings" },
  { page: "routes", words: "Notifications" },
  { page: "audit-log", words: "Audit log" },
  { page: "api-access", words: "API" },
];

export function organizationTabs(current: PageName) {
  return PARTS.map(({ page, words }) => ({ href: address(page), words, current: page === current }));
}
