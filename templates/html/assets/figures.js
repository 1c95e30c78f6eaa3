// A figure opens large, with its files and the place of its description; a roofline and a figure of
// scaling also show the value at a point and hide series. Without this script the picture and its
// files are links.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;
  const NEAR = 28;

  const drawn = text => {
    const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.classList.add("drawn");
    return document.adoptNode(svg);
  };

  // Boxes that hide a series, and the value of the point that is nearest to the pointer.
  const tools = (svg, series) => {
    const shown = new Set(series);
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const ring = document.createElementNS(svg.namespaceURI, "circle");
    for (const [name, value] of Object.entries({ class: "ring", r: 5, fill: "none", "stroke-width": 1.5, visibility: "hidden" })) ring.setAttribute(name, value);
    svg.append(ring);
    const words = element("output", "", "Point at the figure, or choose it and use the arrow keys, to read its values.");
    let current = null;
    const points = () => [...shown].flatMap(each => each.points).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const show = point => {
      current = point;
      ring.setAttribute("cx", point[0] * width);
      ring.setAttribute("cy", point[1] * height);
      ring.setAttribute("visibility", "visible");
      words.textContent = point[2];
    };
    const nearest = event => {
      // A figure that is not as wide as its place stands in the middle of it.
      const place = svg.getScreenCTM();
      const far = point => Math.hypot(point[0] * width * place.a + place.e - event.clientX, point[1] * height * place.d + place.f - event.clientY);
      const best = points().reduce((a, b) => (a && far(a) <= far(b) ? a : b), null);
      if (best && far(best) < NEAR) show(best);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], all = points();
      if (!step || !all.length) return;
      event.preventDefault();
      const next = current ? all.indexOf(current) + step : 0;
      show(all[(next + all.length) % all.length]);
    });
    // A box for each name: panels that are compared have series of the same ones.
    const box = name => {
      const named = series.filter(each => each.name === name);
      const input = element("input");
      input.type = "checkbox";
      input.checked = true;
      input.addEventListener("change", () => {
        for (const each of named) {
          if (input.checked) shown.add(each); else shown.delete(each);
          for (const id of each.ids) svg.querySelector(`[id="${id}"]`)?.setAttribute("visibility", input.checked ? "visible" : "hidden");
        }
        ring.setAttribute("visibility", "hidden");
      });
      return element("label", "", input, ` ${name}`);
    };
    const names = [...new Set(series.map(each => each.name))].filter(Boolean);
    const choice = element("fieldset", "series", element("legend", "", "Shown"), ...names.map(box));
    return [words, choice];
  };

  // What the site knows of the figure; nothing where its script is not there.
  const known = new Map();
  const details = async address => {
    if (!address) return {};
    if (!known.has(address)) {
      try {
        await site.load(address);
        known.set(address, site.figure);
      } catch {
        return {};
      }
    }
    return known.get(address);
  };

  const open = async (link, figure) => {
    const { place, series, svg } = await details(link.dataset.opened);
    const image = link.querySelector("img").cloneNode();
    image.removeAttribute("loading");
    const picture = svg ? drawn(svg) : image;
    if (svg) {
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", image.alt);
    }
    const caption = figure.querySelector("figcaption").cloneNode(true);
    caption.removeAttribute("id");
    const files = figure.querySelector(".figure-files")?.cloneNode(true) ?? "";
    const scroll = element("div", "scroll", picture);
    const source = place ? element("p", "facts", "Described in ", element("code", "", place)) : "";
    link.focus({ preventScroll: true });
    site.open("note large", caption.textContent.slice(0, 80),
      element("div", "body", scroll, ...(svg ? tools(picture, series) : []), caption, files, source));
  };

  document.querySelectorAll("main figure.figure").forEach(figure => {
    figure.querySelectorAll("a.picture").forEach(link => {
      link.setAttribute("aria-haspopup", "dialog");
      link.addEventListener("click", event => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
        event.preventDefault();
        open(link, figure);
      });
    });
  });
})();
