// Regions that do not scroll need no stop on the way of the Tab key; those that do show an edge.
(() => {
  "use strict";
  const regions = document.querySelectorAll(".scroll, pre");
  const look = region => {
    const { scrollWidth: width, clientWidth: seen, scrollHeight: height, clientHeight: high } = region;
    const wide = width > seen + 1;
    region.toggleAttribute("data-more", width - seen - region.scrollLeft > 2);
    region.toggleAttribute("data-below", height - high - region.scrollTop > 2);
    region.toggleAttribute("data-wide", wide);
    region.toggleAttribute("data-fits", !wide);
    // What sticks out of the text, in smaller type, still does once it fits, or it would flicker.
    if (width > region.parentElement.clientWidth + 1) region.dataset.out = "";
    if (wide || height > high + 1) region.tabIndex = 0;
    else region.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver(changed => changed.forEach(each => look(each.target.closest(".scroll, pre"))));
  // A wider window may have room in the text for what a narrow one had not.
  addEventListener("resize", () => regions.forEach(region => {
    delete region.dataset.out;
    look(region);
  }));
  regions.forEach(region => {
    for (const observed of [region, ...region.children]) sizes.observe(observed);
    region.addEventListener("scroll", () => look(region), { passive: true });
  });
})();
