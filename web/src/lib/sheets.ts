/** Style sheets of libraries, loaded with the components that use them, so that the first screen loads less. */

/** `{@attach adopting(sheet)}`: adds the style sheet to the page while the element is mounted. */
export function adopting(sheet: string): () => () => void {
  const adopted = new CSSStyleSheet();
  adopted.replaceSync(sheet);
  return () => {
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, adopted];
    return () => (document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== adopted));
  };
}
