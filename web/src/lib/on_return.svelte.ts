/** What changed or failed in the meantime is read again when the person, or the service, is back. */

import { untrack } from "svelte";
import { online } from "../api/online.svelte";

/** Calls `back` whenever the page is seen again; call it while a component is made. */
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

/** Calls `back` when the service answers again after it was away; call it while a component is made. */
export function onServiceBack(back: () => void): void {
  let wasAway = false;
  $effect(() => {
    const { away } = online;
    if (wasAway && !away) untrack(back);
    wasAway = away;
  });
}
