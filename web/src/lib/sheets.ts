/** Sheets of libraries that come with the part that draws with them: the first view's own stays small. */

/** `{@attach adopting(sheet)}`: the page has the sheet while the element is there. */
export function adopting(sheet: string): () => () => void {
  const adopted = new CSSStyleSheet();
  adopted.replaceSync(sheet);
  return () => {
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, adopted];
    return () => (document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== adopted));
  };
}
