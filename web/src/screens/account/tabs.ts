/** The tabs of the account, each with its address. */

import { address, type PageName } from "../../router.svelte";

const PARTS: readonly { page: PageName; words: string }[] = [
  { page: "account", words: "You" },
  { page: "account-notifications", words: "Notifications" },
];

export function accountTabs(current: PageName) {
  return PARTS.map(({ page, words }) => ({ href: address(page), words, current: page === current }));
}
