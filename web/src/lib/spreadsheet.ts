/** What people give when they are asked for a spreadsheet. */

/** The id in a spreadsheet's address; any other text is taken as the id itself. */
export function spreadsheetIn(typed: string): string {
  return /\/spreadsheets\/d\/([A-Za-z0-9_-]+)/.exec(typed)?.[1] ?? typed.trim();
}
