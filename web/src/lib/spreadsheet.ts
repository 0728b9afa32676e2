/** Reads what people enter for a spreadsheet. */

/** Returns the id in a spreadsheet's address; any other text is returned as the id itself. */
export function spreadsheetIn(typed: string): string {
  return /\/spreadsheets\/d\/([A-Za-z0-9_-]+)/.exec(typed)?.[1] ?? typed.trim();
}
