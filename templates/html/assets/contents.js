// The contents follow the reader; headings get a link to themselves.
(() => {
  "use strict";
  // Beside the text the contents are open; above it, as on a phone, they start closed. Turning the
  // device decides anew, so that they are never shut where they cannot be opened.
  const details = document.querySelector(".contents details");
  const narrow = matchMedia("(max-width: 63.99rem)");
  const fit = () => { if (details) details.open = !narrow.matches; };
  narrow.addEventListener("change", fit);
  fit();
  details?.addEventListener("click", event => {
    if (narrow.matches && event.target.closest("a")) details.open = false;
  });

  // The entry of the section that crosses a line in the upper quarter of the window is marked.
  const entries = new Map();
  document.querySelectorAll(".contents a").forEach(a => entries.set(decodeURIComponent(a.hash.slice(1)), a));
  const crossing = new Set();
  // Contents that are longer than the window scroll by themselves, never the page with them.
  const show = entry => {
    const list = entry.closest(".contents");
    const place = entry.getBoundingClientRect(), box = list.getBoundingClientRect();
    if (place.top < box.top || place.bottom > box.bottom) list.scrollTop += place.top - box.top - box.height / 2;
  };
  const mark = () => {
    const inside = [...entries.keys()].filter(id => crossing.has(id));
    const current = inside.at(-1);
    entries.forEach((a, id) => { a.ariaCurrent = id === current ? "true" : null; });
    if (current && !narrow.matches) show(entries.get(current));
  };
  const observer = new IntersectionObserver(seen => {
    for (const each of seen) {
      if (each.isIntersecting) crossing.add(each.target.id);
      else crossing.delete(each.target.id);
    }
    mark();
  }, { rootMargin: "-24% 0px -75% 0px" });
  entries.forEach((a, id) => {
    const section = document.getElementById(id);
    if (section) observer.observe(section);
  });

  document.querySelectorAll("article section[id] > :is(h2, h3, h4)").forEach(heading => {
    const link = document.createElement("a");
    link.className = "permalink";
    link.href = `#${heading.parentElement.id}`;
    link.textContent = "#";
    link.setAttribute("aria-label", `Link to: ${heading.textContent}`);
    heading.append(" ", link);
  });
})();
