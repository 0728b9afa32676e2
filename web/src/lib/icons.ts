/** The icons of actions: paths in a box of 16 by 16, drawn with one stroke. */

export const ICONS = {
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  archive: "M2 3h12v3H2zM3 6v7.5h10V6M6.5 9h3",
  skip: "M3.5 3.5v9L10 8zM12.5 3.5v9",
  seen: "M2 8.5 5 12l6-8M8.5 12 14.5 4",
  refresh: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
  close: "M4 4l8 8M12 4l-8 8",
} as const;
