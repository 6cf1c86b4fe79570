const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const focused = () => document.activeElement;
const on = (type, handler, capture) => document.addEventListener(type, handler, capture);
const cookie = (name, value) => {
  document.cookie = `${name}=${encodeURIComponent(value)};path=/;max-age=31536000;samesite=lax`;
};

// Emptied first: the same words are spoken again when they happen again.
const announce = (text, urgent) => {
  const region = byId(urgent ? "live-urgent" : "live");
  region.textContent = "";
  setTimeout(() => region.append(text), 60);
};
const toast = (text, { tone = "", code = "" } = {}) => {
  const region = byId("toasts");
  const box = Object.assign(document.createElement("div"), { className: `toast ${tone}`, textContent: text });
  if (code) box.appendChild(document.createElement("code")).textContent = code;
  region.append(box);
  region.hidePopover();
  region.showPopover(); // anew, so that it stands above a dialog opened since
  setTimeout(() => box.remove(), code || tone === "bad" ? 12000 : 5000);
  announce(text, tone === "bad");
  return box;
};
const hideBanner = () => { byId("banner").hidden = true; };

const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${text.slice(0, 40)}`);
  } catch {
    getSelection().selectAllChildren(one("code", toast("Press Ctrl+C to copy", { code: text })));
  }
};
const copyNear = () => {
  const active = focused();
  const money = active.closest("data.money") || one("data.money:hover");
  const button = one("[data-copy]", active.closest("tr, .with-copy") || document);
  if (money) {
    copy(money.value.replace(/\d+/, (digits) => digits.padStart(7, 0)).replace(/(\d{6})(?:\.(\d+))?$/, ".$1$2"));
  } else if (button) copy(button.dataset.copy);
};

const setTheme = ({ dataset: { scheme } }) => {
  cookie("theme", scheme);
  document.documentElement.dataset.theme = scheme;
  for (const button of all("[data-scheme]")) button.ariaPressed = button.dataset.scheme === scheme;
};
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes("zone=")) cookie("zone", zone);

// A hidden tab does not poll; a region that missed three polls says so.
const polls = new Map();
const pollOf = ({ id }) => {
  if (!polls.has(id)) polls.set(id, { at: Date.now(), missed: 0 });
  return polls.get(id);
};
const mark = (region) => {
  const { at, missed } = pollOf(region);
  const label = one("[data-updated]", region);
  if (!label) return;
  const age = Math.round((Date.now() - at) / 1000);
  const ago = age < 100 ? `${age} s ago` : `${age / 60 | 0} min ago`;
  label.classList.toggle("stale", missed > 2);
  label.textContent = missed > 2 ? `Last update ${ago}, retrying` : `Updated ${ago}`;
};
const polled = (node) => node.matches("[data-poll]");
const markAll = () => document.hidden || all("[data-poll]").forEach(mark);
markAll();
setInterval(markAll, 1000);
const reload = (source, path) => htmx.ajax("GET", path, { source });
on("visibilitychange", () => {
  for (const region of document.hidden ? [] : all("[data-poll]")) {
    const poll = pollOf(region);
    if (poll.paused) reload(region, region.getAttribute("hx-get"));
    poll.paused = false;
  }
});
on("htmx:beforeRequest", (event) => {
  if (!polled(event.target)) hideBanner();
  else if (document.hidden) {
    pollOf(event.target).paused = true;
    event.preventDefault();
  }
});
on("htmx:afterRequest", ({ target, detail }) => {
  if (!polled(target)) return;
  const poll = pollOf(target);
  poll.missed += 1;
  if (detail.successful) polls.delete(target.id);
  mark(target);
});
const reasons = {
  0: "There is no connection.", 403: "You may not do this.", 404: "This is gone.",
  429: "Too many requests.", 503: "The server is busy.",
};
const fail = ({ target, detail: { xhr, requestConfig: { verb, path } } }) => {
  if (polled(target)) return;
  const banner = byId("banner");
  const id = xhr.getResponseHeader("x-request-id");
  const text = `${reasons[xhr.status] || "The server could not answer."} ${id ? `Request ${id}` : ""}`;
  one("p", banner).textContent = text;
  one("[data-retry]", banner).hidden = verb !== "get";
  banner.retry = () => reload(target, path);
  banner.hidden = false;
  announce(text, true);
};
for (const type of ["responseError", "sendError", "timeout"]) on(`htmx:${type}`, fail);

// What a person is typing and what they opened survives a morph.
Idiomorph.defaults.ignoreActiveValue = true;
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => name !== "open" || !node.matches("details, dialog");
let losing;
on("htmx:beforeSwap", ({ detail: { target } }) => { losing = (target.open || target.contains(focused())) && target.id; });
on("htmx:afterSettle", () => {
  const region = losing && focused() === document.body && byId(losing);
  if (!region) return;
  const next = one("[aria-invalid]", region) || one("h1, h2, h3", region) || region;
  if (next.tabIndex) next.tabIndex = -1;
  next.focus();
});

let opener;
const open = (dialog) => {
  if (dialog.open) return;
  opener = focused().id;
  dialog.showModal();
};
on("htmx:afterSwap", ({ detail: { target } }) => {
  if (target.id !== "dialog") return;
  if (target.childElementCount) open(target);
  else target.close();
});
on("close", ({ target }) => {
  if (target.id === "dialog") target.replaceChildren();
  if (focused() === document.body) byId(opener)?.focus(); // the opener itself was swapped
}, true);
on("dialog-close", () => byId("dialog").close());
on("toast", ({ detail }) => toast(detail.text ?? detail.value, detail));
on("announce", ({ detail }) => announce(detail.text ?? detail.value));

let last;
const select = (box, shift) => {
  const root = box.closest("[data-rows]");
  const boxes = all("[data-select]", root);
  const head = one("[data-selectall]", root);
  const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
  const reach = shift && from >= 0 ? boxes.slice(from, to + 1) : [];
  for (const item of box === head ? boxes : reach) item.checked = box.checked;
  last = box;
  const count = boxes.filter((item) => item.checked).length;
  if (head) {
    head.checked = count === boxes.length;
    head.indeterminate = count > 0 && !head.checked;
  }
  for (const label of all("[data-selected-count]")) label.textContent = count;
};

const clicks = {
  copy: (hit) => copy(hit.dataset.copy),
  scheme: setTheme,
  close: (hit) => hit.closest("dialog").close(),
  retry: () => byId("banner").retry(),
  dismiss: hideBanner,
  print: () => print(),
  select: (hit, event) => select(hit, event.shiftKey),
  selectall: (hit) => select(hit),
};
on("click", (event) => {
  for (const name in clicks) {
    const hit = event.target.closest(`[data-${name}]`);
    if (hit) clicks[name](hit, event);
  }
});

const step = (by) => {
  const rows = all("[data-rows] tbody tr:has(a[href])");
  const row = rows[Math.max(rows.indexOf(focused().closest("tr")) + by, 0)];
  if (row) one("a[href]", row).focus();
};
let chord = 0;
const keys = {
  "/": () => (byId("jump") || one("main [type=search]"))?.focus(),
  "?": () => open(byId("keys")),
  j: () => step(1),
  k: () => step(-1),
  x: () => focused().closest("tr")?.querySelector("[data-select]")?.click(),
  c: copyNear,
  "[": () => one("a[rel=prev]")?.click(),
  "]": () => one("a[rel=next]")?.click(),
  g: () => { chord = Date.now(); },
  Escape: () => {
    hideBanner();
    for (const box of all("[data-select]:checked")) box.click();
  },
};
on("keydown", (event) => {
  const { key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open], body[data-shortcuts]")) return;
  if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const link = Date.now() - chord < 1200 && one(`[data-chord="${CSS.escape(key)}"]`);
  chord = 0;
  if (!link && !(key in keys)) return;
  if (key !== "Escape") event.preventDefault();
  if (link) link.click();
  else keys[key]();
});
