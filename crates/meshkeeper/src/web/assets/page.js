// Asks for the same page again when the server says that there is something new, and puts the parts in place that
// differ. Without it the page reads the same; it is then loaded again by hand.
"use strict";
(() => {
  const live = document.getElementById("live");
  const say = (text) => { if (live && live.textContent !== text) live.textContent = text; };
  let seen = null, busy = false, again = false;

  // The part that has the keyboard keeps it: by id, or by what the link leads to.
  const focused = (part) => {
    const one = document.activeElement;
    if (!one || one === part || !part.contains(one)) return null;
    if (one.id) return "#" + CSS.escape(one.id);
    const label = one.getAttribute("aria-label"), href = one.getAttribute("href");
    if (href) return `a[href="${CSS.escape(href)}"]`;
    return label ? `[aria-label="${CSS.escape(label)}"]` : null;
  };

  const take = (fresh) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (!other || other.innerHTML === part.innerHTML) continue;
      const keep = focused(part), scrolled = [...part.querySelectorAll(".wide")].map((one) => one.scrollLeft);
      part.replaceChildren(...other.childNodes);
      part.querySelectorAll(".wide").forEach((one, i) => { one.scrollLeft = scrolled[i] || 0; });
      const back = keep && part.querySelector(keep);
      if (back) back.focus({ preventScroll: true });
    }
  };

  const load = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
      const text = await answer.text();
      const fresh = new DOMParser().parseFromString(text, "text/html");
      if (answer.ok && !answer.redirected) { take(fresh); say("Live: this page follows what happens."); }
      else if (answer.redirected || answer.status === 401) say("The session is over: load the page again.");
      else say("The bus cannot be read now; this page shows how it was before.");
    } catch { say("Not connected; this page shows how it was before."); }
    busy = false;
    if (again) { again = false; load(); }
  };

  if (!document.querySelector("[data-live]") || !window.EventSource) return;
  let source = null, wait = 1000;
  const open = () => {
    source = new EventSource("/changes");
    source.addEventListener("open", () => { wait = 1000; });
    source.addEventListener("changed", (event) => {
      if (event.data === seen) { say("Live: this page follows what happens."); return; }
      seen = event.data;
      load();
    });
    source.addEventListener("error", () => {
      say("Not connected; this page shows how it was before.");
      // Refused, as when there are too many readers: the browser does not try again by itself.
      if (source.readyState === EventSource.CLOSED) { setTimeout(open, wait); wait = Math.min(wait * 2, 60000); }
    });
  };
  open();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
})();
