/** How the state of a channel and of its deliveries is displayed. */

import type { Shown } from "../../lib/words";

export const ROUTE: Readonly<Record<string, Shown>> = {
  ok: { words: "Works", shape: "tick", tone: "good" },
  broken: { words: "Takes no messages", shape: "cross", tone: "bad" },
};

export const DELIVERY: Readonly<Record<string, Shown>> = {
  collecting: { words: "Being collected", shape: "circle", tone: "info" },
  due: { words: "Waiting", shape: "circle", tone: "info" },
  sending: { words: "Being sent", shape: "half", tone: "info" },
  sent: { words: "Accepted", shape: "tick", tone: "good" },
  refused: { words: "Refused", shape: "cross", tone: "bad" },
  expired: { words: "Given up", shape: "clock", tone: "bad" },
  obsolete: { words: "Not needed any more", shape: "bar", tone: "muted" },
};

/** The final states, from which a person can send a delivery again. */
export const FINAL = ["sent", "refused", "expired"];
