// Light or dark: as the system says, or as the reader chose. Runs before the page is painted.
(() => {
  "use strict";
  const KEY = "ridgepoint-theme";
  const page = document.documentElement;
  // A page that is opened as a file may be refused its storage.
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const store = theme => { try { localStorage.setItem(KEY, theme); } catch { /* for this page only */ } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const shown = () => page.dataset.theme ?? (system.matches ? "dark" : "light");

  const known = stored();
  if (known === "light" || known === "dark") page.dataset.theme = known;

  document.addEventListener("DOMContentLoaded", () => {
    const tools = document.querySelector(".tools");
    if (!tools) return;
    const button = document.createElement("button");
    button.className = "theme";
    const label = () => {
      button.textContent = shown() === "dark" ? "Light" : "Dark";
      button.setAttribute("aria-label", `Show this site in ${shown() === "dark" ? "light" : "dark"} colours`);
    };
    button.addEventListener("click", () => {
      page.dataset.theme = shown() === "dark" ? "light" : "dark";
      store(page.dataset.theme);
      label();
    });
    system.addEventListener("change", label);
    label();
    tools.append(button);
    // On a phone the links scroll: to this page's at first, and to all of one that gets the focus.
    const links = document.querySelector("header.site nav"), current = links.querySelector("[aria-current]");
    links.scrollLeft = (current?.offsetLeft ?? 0) - 60;
    links.addEventListener("focusin", event => event.target.scrollIntoView({ block: "nearest", inline: "nearest" }));
  });
})();
