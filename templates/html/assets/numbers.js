// A computed number opens in place: its interval, its formula, its samples and its records. Without
// this script the link leads to the number's line in the list of where numbers come from.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;
  const { root } = document.querySelector(".tools").dataset;
  // In units of the strip, which is drawn at about a half of its size, or at a quarter on a phone.
  const WIDTH = 1000, MARGIN = 14, ROW = matchMedia("(max-width: 40rem)").matches ? 24 : 12;

  const vector = (name, attributes, ...content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };

  // A row of dots for each process, with a line at its median.
  const strip = series => {
    const height = series.processes.length * ROW + 8;
    const rows = series.processes.map(([, disturbed, ...positions], index) => {
      const y = 4 + ROW * (index + 0.5);
      const middle = positions[Math.floor(positions.length / 2)];
      return vector("g", { class: disturbed ? "disturbed" : "" },
        ...positions.map(x => vector("circle", { class: "sample", cx: x, cy: y, r: ROW / 3 })),
        vector("line", { class: "middle", x1: middle, x2: middle, y1: y - ROW / 2, y2: y + ROW / 2 }));
    });
    const count = series.processes.length;
    return vector("svg", {
      viewBox: `${-MARGIN} 0 ${WIDTH + 2 * MARGIN} ${height}`,
      role: "img",
      "aria-label": `Samples of ${series.name}: ${series.n} in ${count} process${count > 1 ? "es" : ""}, from ${series.low} to ${series.high}`,
    }, ...rows);
  };

  const strips = (value, all) => {
    const box = element("div", "strips");
    for (const index of value.series ?? []) {
      const series = all[index];
      const processes = series.processes.length;
      box.append(
        element("p", "", `${series.name}: ${series.n} sample${series.n > 1 ? "s" : ""}, ${processes === 1 ? "one process" : `a row for each of ${processes} processes`}`),
        strip(series),
        element("div", "ends", element("span", "", series.low), element("span", "", series.high)));
    }
    if (value.more) box.append(element("p", "", `and ${value.more} more series, in the file of all samples.`));
    return box;
  };

  const link = (address, words, download) => {
    const made = element("a", "", words);
    made.href = address;
    made.toggleAttribute("download", Boolean(download));
    return made;
  };

  // The line of the record in the list of all, with its machine, its day and its code.
  const origin = (file, records) => {
    const record = records[file];
    const name = file.split("/").at(-1).replace(/\.json$/, "");
    if (!record) return element("div", "", link(`${root}${file}`, file, true));
    const made = element("div", "", link(`${root}records.html#${name}`, name),
      `: ${record.machine}, ${record.started}, ${record.cases} cases`);
    if (record.commit) made.append(`, code ${record.commit}`);
    made.append(", ", link(`${root}machines.html`, "machine"));
    return made;
  };

  const facts = (value, records) => {
    const list = element("dl");
    const add = (name, ...content) => list.append(element("dt", "", name), element("dd", "", ...content));
    if (value.reason) add("Missing", value.reason);
    if (value.interval) add(value.n ? "Interval" : "Range", value.interval);
    if (value.n) add("Samples", String(value.n));
    if (!value.reason) add("Formula", value.formula ?? "none: the program of the study measured, counted or computed this number");
    // Where parts were measured in the same processes, the number is the median of their results.
    if (value.numbers) add("In numbers", value.numbers, value.n ? " (each part in its median; the number is the median over processes)" : "");
    const sources = value.sources ?? [];
    if (sources.length) add("From", ...sources.map(file => origin(file, records)));
    else if (!value.reason) add("From", "no record: theory, or published values");
    return list;
  };

  const copied = value => [value.name, value.printed, value.interval, value.formula]
    .filter(Boolean).join("; ");

  const show = (anchor, address) => {
    const { values, series, records } = site.details;
    const value = values[anchor];
    const body = element("div", "body",
      element("h2", "", "Where this number comes from"),
      element("p", "number", value.printed),
      facts(value, records),
      strips(value, series),
      element("div", "actions",
        site.copyButton("Copy", () => copied(value)),
        element("a", "button", "In the list of all numbers")));
    body.querySelector("a.button").href = address;
    site.open("note", `Where the number ${value.printed} comes from`, body);
  };

  document.addEventListener("click", async event => {
    const chosen = event.target.closest?.("a.value");
    if (!chosen || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const anchor = chosen.hash.slice(1);
    event.preventDefault();
    try {
      await site.load(new URL("details.js", chosen.href).href);
      if (!site.details.values[anchor]) throw new Error(anchor);
    } catch {
      location.href = chosen.href;
      return;
    }
    chosen.focus({ preventScroll: true });
    show(anchor, chosen.getAttribute("href"));
  });
  document.querySelectorAll("a.value").forEach(each => each.setAttribute("aria-haspopup", "dialog"));
})();
