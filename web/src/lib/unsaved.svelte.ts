/** What a person typed is not lost by leaving: the screen is left only after asking. */

import { router } from "../router.svelte";

class Leaving {
  /** How to answer the question that is shown; null when none is. */
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

/** Asks before the screen is left while `isChanged`; call it while a component is made. */
export function leaveAsk(isChanged: () => boolean): void {
  $effect(() => (isChanged() ? router.guard(() => leaving.ask()) : undefined));
}
