// Reloads a page after a build, where the reader was; says at its top why a build failed.
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

  const bar = document.createElement("div");
  bar.id = "ridgepoint-failure";
  bar.setAttribute("role", "alert");
  bar.style.cssText =
    "position:fixed;inset:0 0 auto 0;z-index:99;max-height:40vh;overflow:auto;" +
    "padding:.5rem 1rem;background:#a32020;color:#fff;white-space:pre-wrap;" +
    "overflow-wrap:anywhere;font:.9rem/1.4 system-ui,sans-serif";
  const tell = (failure) => {
    bar.textContent = failure ?? "";
    if (failure) document.body.prepend(bar);
    else bar.remove();
  };

  // Where the server has ended or a page is not in view there is nothing to ask for.
  const ask = async () => {
    if (document.hidden) return;
    const answer = await fetch("/-/news").catch(() => null);
    const news = await answer?.json();
    if (news && news.build !== shown) reload();
    else if (news) tell(news.failure);
  };
  setInterval(ask, 1000);
})();
