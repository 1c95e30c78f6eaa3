// What a page does beyond showing itself; without scripts it reads the same.
(() => {
  "use strict";
  // On a phone the contents start closed; this runs before they are painted.
  const contents = document.querySelector(".contents details");
  if (contents && matchMedia("(max-width: 63.99rem)").matches) contents.open = false;

  // Regions that do not scroll need no stop on the way of the Tab key; those that do show an edge.
  const watchRegions = () => {
    const regions = document.querySelectorAll(".scroll");
    const stops = () => regions.forEach(region => {
      const rest = region.scrollWidth - region.clientWidth - region.scrollLeft;
      region.toggleAttribute("data-more", rest > 2);
      if (region.scrollWidth > region.clientWidth + 1) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    });
    stops();
    addEventListener("load", stops);
    addEventListener("resize", stops);
    document.querySelectorAll("details").forEach(part => part.addEventListener("toggle", stops));
    regions.forEach(region => region.addEventListener("scroll", stops, { passive: true }));
  };

  // The entry of the section being read is marked in the contents.
  const markContents = () => {
    const entries = new Map();
    document.querySelectorAll(".contents a").forEach(a => entries.set(a.hash.slice(1), a));
    const sections = [...entries.keys()].map(id => document.getElementById(id)).filter(Boolean);
    const mark = () => {
      const line = innerHeight / 4;
      let current = null;
      for (const section of sections) {
        if (section.getBoundingClientRect().top <= line) current = section;
      }
      entries.forEach((a, id) => {
        if (current && id === current.id) a.setAttribute("aria-current", "true");
        else a.removeAttribute("aria-current");
      });
    };
    addEventListener("scroll", mark, { passive: true });
    mark();
  };

  addEventListener("DOMContentLoaded", () => {
    watchRegions();
    markContents();
  });
})();
