// Regions that do not scroll need no stop on the way of the Tab key; those that do show an edge.
(() => {
  "use strict";
  const regions = document.querySelectorAll(".scroll, pre");
  const look = region => {
    const rest = region.scrollWidth - region.clientWidth - region.scrollLeft;
    region.toggleAttribute("data-more", rest > 2);
    const wide = region.scrollWidth > region.clientWidth + 1;
    region.toggleAttribute("data-wide", wide);
    if (wide || region.scrollHeight > region.clientHeight + 1) region.tabIndex = 0;
    else region.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver(changed => changed.forEach(each => look(each.target)));
  regions.forEach(region => {
    sizes.observe(region);
    region.addEventListener("scroll", () => look(region), { passive: true });
  });
})();
