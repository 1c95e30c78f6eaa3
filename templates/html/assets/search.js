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

  const words = text => text.toLowerCase().normalize("NFKD").split(/[^\p{L}\p{N}.-]+/u).filter(Boolean);
  const plain = text => text.toLowerCase().normalize("NFKD");

  // Every word must occur; one in a heading counts more than one in the text.
  const find = query => {
    const wanted = words(query);
    if (!wanted.length) return [];
    return site.index
      .map((entry, order) => {
        const head = plain(entry.title), body = plain(entry.text);
        const score = wanted.every(word => head.includes(word) || body.includes(word))
          ? wanted.reduce((sum, word) => sum + (head.includes(word) ? 10 : 1), entry.kind === "Paper" ? 5 : 0)
          : 0;
        return { entry, order, score };
      })
      .filter(each => each.score)
      .sort((a, b) => b.score - a.score || a.order - b.order)
      .map(each => each.entry);
  };

  // The text around the first word that was found, with the words marked.
  const excerpt = (text, query) => {
    const wanted = words(query);
    const places = wanted.map(word => text.toLowerCase().indexOf(word)).filter(place => place >= 0);
    const start = Math.max(0, (places.length ? Math.min(...places) : 0) - BEFORE);
    const end = start + BEFORE + AFTER;
    const head = text.slice(start, end).replace(start ? /^\S*\s/ : "", start ? "… " : "");
    const shown = end < text.length ? head.replace(/\s\S*$/, " …") : head;
    const escaped = wanted.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const parts = escaped.length ? shown.split(new RegExp(`(${escaped.join("|")})`, "i")) : [shown];
    return element("p", "", ...parts.map((part, index) => index % 2 ? element("mark", "", part) : part));
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
