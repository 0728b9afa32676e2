/** Refreshes data when the person returns to the tab, or when the service is reachable again. */

import { untrack } from "svelte";
import { online } from "../api/online.svelte";

/** Calls `back` whenever the tab becomes visible again; call it while a component is created. */
export function onReturn(back: () => void): void {
  $effect(() => {
    const seen = () => {
      if (!document.hidden) back();
    };
    document.addEventListener("visibilitychange", seen);
    addEventListener("focus", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("focus", seen);
    };
  });
}

/** Calls `back` when the service is reachable again after an outage; call it while a component is created. */
export function onServiceBack(back: () => void): void {
  let wasUnreachable = false;
  $effect(() => {
    const { isUnreachable } = online;
    if (wasUnreachable && !isUnreachable) untrack(back);
    wasUnreachable = isUnreachable;
  });
}
