/** What was made in another tab is found when one comes back to this one. */

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
