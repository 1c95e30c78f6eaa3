// A figure opens large, with its files. Without this script its picture and its files are links.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;

  document.querySelectorAll("main figure.figure").forEach(figure => {
    figure.querySelectorAll("a.picture").forEach(link => {
      link.setAttribute("aria-haspopup", "dialog");
      link.addEventListener("click", event => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
        event.preventDefault();
        const image = link.querySelector("img").cloneNode();
        image.removeAttribute("loading");
        const caption = figure.querySelector("figcaption").cloneNode(true);
        caption.removeAttribute("id");
        const files = figure.querySelector(".figure-files")?.cloneNode(true) ?? "";
        site.open("note large", caption.textContent.slice(0, 80),
          element("div", "body", element("div", "scroll", image), caption, files));
      });
    });
  });
})();
