/** The entries of the navigation, in order (docs/design/web.md#rules-for-every-screen). */

import type { PageName } from "../router.svelte";

export interface NavigationEntry {
  page: PageName;
  words: string;
  /** The icon's paths, in a box of 16 by 16. */
  icon: string;
  /** Whether it is in the bottom bar of small screens; the others are under More. */
  bottom?: boolean;
  /** Further pages under which it is highlighted. */
  also?: readonly PageName[];
}

export const NAVIGATION: readonly NavigationEntry[] = [
  { page: "overview", words: "Overview", icon: "M2.5 7.5 8 3l5.5 4.5V13h-11zM6.5 13V9.5h3V13", bottom: true },
  {
    page: "automations",
    words: "Automations",
    icon: "M3 4.5h10M3 8h10M3 11.5h6",
    also: ["automation", "automation-tab", "new-automation", "setup"],
  },
  { page: "calendar", words: "Calendar", icon: "M2.5 4h11v9h-11zM2.5 7h11M5.5 2.5v2M10.5 2.5v2", bottom: true },
  { page: "approvals", words: "Approvals", icon: "M2.5 8.5 6 12l7.5-8", bottom: true, also: ["approval", "review"] },
  { page: "runs", words: "Runs", icon: "M5 3.5v9l7-4.5z", also: ["run"] },
  { page: "imports", words: "Imports", icon: "M8 2.5v7m-3-3 3 3 3-3M3 12.5h10", also: ["import", "new-import"] },
  {
    page: "connections",
    words: "Connections",
    icon: "M6.5 9.5l3-3M5 7 3.2 8.8a2.5 2.5 0 0 0 3.6 3.6L8.5 11M11 9l1.8-1.8a2.5 2.5 0 0 0-3.6-3.6L7.5 5",
    also: ["connection", "new-connection"],
  },
  { page: "people", words: "People", icon: "M5.5 7.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM2 13c0-4 7-4 7 0M10.5 7.5a1.7 1.7 0 1 0-.4-3.4M11 9.4c1.8.2 3 1.4 3 3.6" },
];
