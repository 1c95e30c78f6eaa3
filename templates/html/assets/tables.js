// Tables sort by a choice of their heads, and are copied as CSV; without this script they stand as
// they are, with a link to their file.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;

  const text = cell => cell.innerText.replace(/\s+/g, " ").trim();
  const PREFIX = { n: 1e-9, µ: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  // The number that a cell begins with, in its unit without prefix; null for a text.
  const number = shown => {
    const found = /^([−-]?[\d,]*\.?\d+(?:e[−+-]?\d+)?)(?:[\s ]([nµmkMGT])?(?=[A-Za-z]))?/.exec(shown);
    if (!found) return null;
    const value = Number(found[1].replace(/,/g, "").replace(/−/g, "-"));
    return Number.isFinite(value) ? value * (found[2] ? PREFIX[found[2]] : 1) : null;
  };

  // Numbers by size, then texts by letters; what is missing comes last in both directions.
  const compare = (a, b, sign) => {
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return sign * (x - y);
    if ((x === null) !== (y === null)) return x === null ? 1 : -1;
    return sign * a.localeCompare(b, "en", { numeric: true });
  };

  const sort = (table, column, head) => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map(row => ({ row, key: text(row.cells[column]) }));
    rows.sort((a, b) => compare(a.key, b.key, sign));
    body.append(...rows.map(each => each.row));
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  };

  // A cell that begins with a sign of a formula would be computed by a spreadsheet.
  const quoted = shown => {
    const safe = /^[=+@\t]|^[-−](?![\d.])/.test(shown) ? `'${shown}` : shown;
    return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  const csv = table => [...table.rows].map(row => [...row.cells].map(cell => quoted(text(cell))).join(",")).join("\n") + "\n";

  document.querySelectorAll("main table").forEach(table => {
    const head = table.tHead?.rows.length === 1 ? table.tHead.rows[0] : null;
    // On a phone the rows of the pages over all studies, of the list of a paper's numbers, and of
    // tables with a text in each third row become cards, whose cells need their names.
    const texts = table.querySelectorAll("tbody tr:has(.long)").length;
    if (head && (table.matches(".overview table, #sec-provenance table") || 3 * texts >= table.tBodies[0].rows.length)) {
      const names = [...head.cells].map(text);
      for (const row of table.tBodies[0].rows) {
        [...row.cells].forEach((cell, column) => { cell.dataset.label = names[column]; });
      }
    }
    const plain = head && table.tBodies.length === 1 && table.tBodies[0].rows.length > 2
      && [...table.rows].every(row => row.cells.length === head.cells.length);
    if (plain) {
      [...head.cells].forEach((cell, column) => {
        const button = element("button", "sort", ...cell.childNodes);
        button.addEventListener("click", () => sort(table, column, cell));
        cell.append(button);
      });
    }
    const scroll = table.closest(".scroll");
    if (!scroll || !head) return;
    const links = scroll.parentElement.querySelector(":scope > .table-file") ?? element("p", "table-file");
    links.prepend(site.copyButton("Copy as CSV", () => csv(table)), " ");
    if (!links.isConnected) scroll.after(links);
  });

  // The counts above a list of claims become buttons; a pressed one leaves the claims it counts.
  document.querySelectorAll(".claims section").forEach(section => {
    const counts = [...section.querySelectorAll(".verdicts .verdict")];
    const rows = [...section.querySelectorAll("tr.claim")];
    const verdict = shown => [...shown.classList].find(name => name !== "verdict");
    counts.forEach(count => {
      const button = element("button", count.className, ...count.childNodes);
      button.setAttribute("aria-pressed", "false");
      count.replaceWith(button);
      button.addEventListener("click", () => {
        const chosen = button.getAttribute("aria-pressed") === "false";
        for (const other of section.querySelectorAll("button.verdict")) other.setAttribute("aria-pressed", String(chosen && other === button));
        for (const row of rows) row.hidden = chosen && verdict(row.querySelector(".verdict")) !== verdict(button);
      });
    });
  });
})();
