// Citations and cross references show what they lead to in place; a second choice goes there.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;

  // A copy may hold no id, since the page has each already.
  const copy = target => {
    const made = target.cloneNode(true);
    for (const each of [made, ...made.querySelectorAll("*")]) {
      for (const name of ["id", "aria-labelledby", "aria-sort"]) each.removeAttribute(name);
    }
    // The heads of a table stand in buttons that sort it; a copy keeps their words.
    made.querySelectorAll("button.sort").forEach(each => each.replaceWith(...each.childNodes));
    made.querySelectorAll(".permalink, button, .table-file, .figure-files").forEach(each => each.remove());
    return made;
  };

  // Of a section its heading and first paragraph; all else is shown whole.
  const preview = target => {
    if (target.tagName !== "SECTION") return [copy(target)];
    const heading = target.querySelector("h2, h3, h4"), first = target.querySelector("p");
    return [element("h2", "", heading.textContent.replace(/\s#$/, "")), ...(first ? [copy(first)] : [])];
  };

  document.addEventListener("click", event => {
    const chosen = event.target.closest?.("a.reference, .citation a, a[role='doc-biblioref']");
    if (!chosen || chosen.closest("dialog") || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const id = decodeURIComponent(chosen.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    event.preventDefault();
    chosen.focus({ preventScroll: true });
    const go = element("a", "button", "Go there");
    go.href = chosen.getAttribute("href");
    const body = element("div", "body", ...preview(target), element("div", "actions", go));
    site.open("note", `What ${chosen.textContent} refers to`, body);
  });
})();
