/** The calls of the account's screens; they go out before the screens' code is there. */

import { prefetch } from "../../api/cache.svelte";

export function startPreferences(): void {
  prefetch("/app/notification-preferences");
}
