/** The requests of the account's screens, also sent while their code loads. */

import { prefetch } from "../../api/cache.svelte";

export function prefetchPreferences(): void {
  prefetch("/app/notification-preferences");
}
