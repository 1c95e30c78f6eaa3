// One dialog for all that opens over the page. Escape, the close button and a click beside it close
// it; the browser itself keeps the focus inside and gives it back to what opened it.
(() => {
  "use strict";
  const site = globalThis.ridgepoint ??= {};

  // An element with a class, and text or other elements in it; text is never read as markup.
  site.element = (name, className, ...content) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...content);
    return made;
  };

  site.open = (kind, label, ...content) => {
    const dialog = site.element("dialog", kind);
    dialog.setAttribute("aria-label", label);
    const close = site.element("button", "close", "×");
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => dialog.close());
    dialog.append(close, ...content);
    dialog.addEventListener("click", event => {
      const leaves = event.target.closest("a[href*='#']:not(.value)");
      if (event.target === dialog || leaves) dialog.close();
    });
    const opener = document.activeElement;
    dialog.addEventListener("close", () => {
      dialog.remove();
      opener?.focus({ preventScroll: true });
    });
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
  };

  // Loads a script of the site once; a page that is opened as a file may read nothing else.
  const loading = new Map();
  site.load = address => {
    if (!loading.has(address)) {
      loading.set(address, new Promise((resolve, reject) => {
        const script = site.element("script");
        script.src = address;
        script.addEventListener("load", resolve);
        script.addEventListener("error", () => { loading.delete(address); reject(new Error(address)); });
        document.head.append(script);
      }));
    }
    return loading.get(address);
  };

  // A button that copies a text, and says so.
  site.copyButton = (words, text) => {
    const button = site.element("button", "copy", words);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text());
      } catch {
        // Without permission, or where the page is a file of an old browser.
        const area = site.element("textarea", "", text());
        button.after(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = words; }, 1500);
    });
    return button;
  };
})();
