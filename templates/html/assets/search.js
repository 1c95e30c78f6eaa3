// Search over all papers: sections, figures, tables, claims. The index is a script of the site, so
// that it works offline and in a folder; it is loaded when the search is opened first.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;
  const tools = document.querySelector(".tools");
  if (!tools) return;
  const root = tools.dataset.root;
  const MOST = 30, BEFORE = 50, AFTER = 130;

  // A word is found at the beginning of words, one or two characters only as a whole word.
  const patterns = query => (query.normalize("NFKD").match(/[\p{L}\p{N}]+(?:[.-][\p{L}\p{N}]+)*/gu) ?? []).map(word => {
    const escaped = word.replaceAll(".", "\\.");
    return `(?<![\\p{L}\\p{N}])${escaped}${word.length < 3 ? "(?![\\p{L}\\p{N}])" : ""}`;
  });

  // Every word must occur; one in a heading counts more than one in the text.
  const find = query => {
    const wanted = patterns(query).map(pattern => new RegExp(pattern, "iu"));
    if (!wanted.length) return [];
    return site.index
      .map((entry, order) => {
        const head = entry.title.normalize("NFKD"), body = entry.text.normalize("NFKD");
        const score = wanted.every(word => word.test(head) || word.test(body))
          ? wanted.reduce((sum, word) => sum + (word.test(head) ? 10 : 1), entry.kind === "Paper" ? 5 : 0)
          : 0;
        return { entry, order, score };
      })
      .filter(each => each.score)
      .sort((a, b) => b.score - a.score || a.order - b.order)
      .map(each => each.entry);
  };

  // The text around the first word that was found, with the words marked.
  const excerpt = (text, query) => {
    const wanted = new RegExp(`(${patterns(query).join("|")})`, "iu");
    const start = Math.max(0, text.search(wanted) - BEFORE);
    const end = start + BEFORE + AFTER;
    const head = text.slice(start, end).replace(start ? /^\S*\s/ : "", start ? "… " : "");
    const shown = end < text.length ? head.replace(/\s\S*$/, " …") : head;
    return element("p", "", ...shown.split(wanted).map((part, index) => index % 2 ? element("mark", "", part) : part));
  };

  const result = (entry, query, dialog) => {
    const link = element("a", "", entry.title);
    link.href = root + entry.address;
    link.addEventListener("click", () => dialog.close());
    const where = entry.kind === "Paper" ? "Paper" : `${entry.kind} of: ${entry.paper}`;
    return element("li", "", link, element("p", "facts", where), excerpt(entry.text, query));
  };

  const open = async () => {
    const field = element("input");
    // Of a field of type "search" Escape would clear the text, not close the dialog.
    field.setAttribute("role", "searchbox");
    field.placeholder = "Papers, figures, tables, claims";
    field.setAttribute("aria-label", "Search this site");
    const status = element("p", "facts", "");
    status.setAttribute("role", "status");
    const list = element("ol", "results");
    const dialog = site.open("note search", "Search", element("div", "body", element("h2", "", "Search"), field, status, list));
    field.focus();
    try {
      await site.load(`${root}search-index.js`);
    } catch {
      status.textContent = "The index of this site is not there.";
      return;
    }
    const show = () => {
      const found = find(field.value);
      const said = found.length ? `${found.length} found` : "Nothing found; try fewer words, or a part of one.";
      status.textContent = field.value.trim() ? said : "";
      list.replaceChildren(...found.slice(0, MOST).map(entry => result(entry, field.value, dialog)));
    };
    field.addEventListener("input", show);
    show();
  };

  const button = element("button", "find", "Search");
  button.setAttribute("aria-keyshortcuts", "/");
  button.addEventListener("click", open);
  tools.prepend(button);
  document.addEventListener("keydown", event => {
    const typing = event.target.closest?.("input, textarea, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    button.focus();
    open();
  });

  // Links to the papers before and after this one.
  const neighbours = document.querySelector(".neighbours");
  if (!neighbours) return;
  site.load(`${root}papers.js`).then(() => {
    const here = site.papers.findIndex(paper => paper.study === neighbours.dataset.study);
    const link = (paper, label, rel) => {
      const made = element("a", rel, element("span", "", label), paper.title);
      made.href = `${root}${paper.study}/index.html`;
      made.rel = rel;
      return made;
    };
    if (here > 0) neighbours.prepend(link(site.papers[here - 1], "Previous paper", "prev"));
    if (here >= 0 && here + 1 < site.papers.length) neighbours.append(link(site.papers[here + 1], "Next paper", "next"));
  }, () => { /* the link to all papers stays */ });
})();
