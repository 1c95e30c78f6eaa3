// Reloads a page after a build, where the reader was.
// The server adds this to the pages that it sends while it watches; no file holds it.
(() => {
  "use strict";
  const shown = document.currentScript.dataset.build;
  const place = `ridgepoint-place:${location.pathname}`;

  const restore = () => {
    const kept = sessionStorage.getItem(place);
    if (kept === null) return;
    const [left, top] = JSON.parse(kept);
    scrollTo({ left, top, behavior: "instant" });
  };
  // Once when the text is there, and once more when figures have taken their room.
  restore();
  addEventListener("load", () => {
    restore();
    sessionStorage.removeItem(place);
    history.scrollRestoration = "auto";
  });

  const reload = () => {
    sessionStorage.setItem(place, JSON.stringify([scrollX, scrollY]));
    history.scrollRestoration = "manual";
    location.reload();
  };

  // Where the server has ended or a page is not in view there is nothing to ask for.
  const ask = async () => {
    if (document.hidden) return;
    const answer = await fetch("/-/news").catch(() => null);
    if (answer?.ok && (await answer.text()) !== shown) reload();
  };
  setInterval(ask, 1000);
})();
