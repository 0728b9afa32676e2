import { describe, expect, it } from "vitest";
import { deliveryWords, type Mode, onDays, type Reach, reachWords } from "./notifications";

const WEEKDAYS = [1, 2, 3, 4, 5];

function reach(modes: [Mode, Mode, Mode, Mode], more: Partial<Reach> = {}): Reach {
  const [approvals, runs, automations, connections] = modes;
  return {
    email: { approvals, runs, automations, connections },
    digest: { at: "08:00", days: WEEKDAYS },
    quiet_hours: null,
    ...more,
  };
}

describe("what reaches a person, in one line", () => {
  it("says what comes at once, and sums up what comes in the digest", () => {
    expect(reachWords(reach(["now", "digest", "digest", "digest"]), true)).toBe(
      "Approvals by e-mail at once; everything else in the digest at 08:00, Monday to Friday.",
    );
  });

  it("says everything where all groups go one way", () => {
    expect(reachWords(reach(["now", "now", "now", "now"]), true)).toBe("Everything by e-mail at once.");
    expect(reachWords(reach(["off", "off", "off", "off"]), true)).toBe("Everything in the app only.");
  });

  it("names a single group that differs, and the quiet hours", () => {
    const quiet_hours = { from: "22:00", to: "07:00", days: [1, 2, 3, 4, 5, 6, 7] };
    expect(reachWords(reach(["now", "now", "digest", "off"], { quiet_hours }), true)).toBe(
      "Approvals and runs by e-mail at once; automations in the digest at 08:00, Monday to Friday;" +
        " connections in the app only; quiet from 22:00 to 07:00, every day.",
    );
  });

  it("promises no e-mail without a mail server", () => {
    expect(reachWords(reach(["now", "now", "now", "now"]), false)).toContain("No e-mail is sent");
  });
});

describe("days in words", () => {
  it("has a span for days in a row and a list for others", () => {
    expect(onDays([1, 2, 3, 4, 5, 6, 7])).toBe("every day");
    expect(onDays([5, 1, 3])).toBe("Monday, Wednesday and Friday");
    expect(onDays([6, 7])).toBe("Saturday and Sunday");
    expect(onDays([2, 3, 4])).toBe("Tuesday to Thursday");
  });
});

describe("what a delivery tells", () => {
  it("is in words, also of a type this app does not know", () => {
    expect(deliveryWords("run.outcome_unknown")).toBe("A run's outcome is not known");
    expect(deliveryWords("notification.test")).toBe("A test message");
    expect(deliveryWords("notices.grouped")).toBe("Several notices");
    expect(deliveryWords("store.opened")).toBe("A notice");
  });
});
