/** Asks before a screen with unsaved text is left. */

import { router } from "../router.svelte";

class Leaving {
  /** Answers the open question; null if none is open. */
  answer = $state.raw<((leave: boolean) => void) | null>(null);

  ask(): Promise<boolean> {
    return new Promise((resolve) => {
      this.answer = (leave) => {
        this.answer = null;
        resolve(leave);
      };
    });
  }
}

export const leaving = new Leaving();

/** While `isChanged` returns true, asks before the screen is left; call it while a component is created. */
export function leaveAsk(isChanged: () => boolean): void {
  $effect(() => (isChanged() ? router.guard(() => leaving.ask()) : undefined));
}
