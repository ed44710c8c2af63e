// What pages do beside what the server renders: local times, clocks that run, dialogs, and looking
// again when something has changed. Without it every page still works.
"use strict";

// --- times -----------------------------------------------------------------------------------------

const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const YEAR = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const ZONE = new Intl.DateTimeFormat(undefined, { timeZoneName: "longOffset" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

function say_instant(at) {
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return CLOCK.format(at);
  return (at.getFullYear() === now.getFullYear() ? DAY : YEAR).format(at) + ", " + CLOCK.format(at);
}

// As `say_span` of the server.
function say_span(seconds) {
  if (seconds < 0.9995) return (seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  if (seconds < 10) return seconds.toFixed(2) + " s";
  const whole = Math.floor(seconds);
  for (const [unit, smaller, size, part] of [["d", "h", 86400, 3600], ["h", "m", 3600, 60], ["m", "s", 60, 1]]) {
    if (whole >= size) {
      const rest = String(Math.floor((whole % size) / part)).padStart(2, "0");
      return Math.floor(whole / size) + " " + unit + " " + rest + " " + smaller;
    }
  }
  return whole + " s";
}

function show_times(within) {
  for (const one of within.querySelectorAll("time[datetime]")) one.textContent = say_instant(new Date(one.dateTime));
}

// Tooltips and labels have no elements within: what this system says there is in UTC.
const UTC = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g;
const say_local = (text) => text.replace(UTC, (_, day, clock) => say_instant(new Date(`${day}T${clock}Z`)));

function show_tooltips(within) {
  for (const one of within.querySelectorAll("[data-utc]")) {
    for (const name of ["title", "aria-label"]) {
      if (one.hasAttribute(name)) one.setAttribute(name, say_local(one.getAttribute(name)));
    }
    if (one.localName === "title") one.textContent = say_local(one.textContent);
  }
}

function say_zone(footer) {
  const { timeZone } = ZONE.resolvedOptions();
  const offset = ZONE.formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
  footer.textContent = `Times are ${timeZone} (${offset}), where nothing else is said.`;
}

function run_clocks() {
  const now = Date.now();
  for (const one of document.querySelectorAll(".duration[data-since]")) {
    one.textContent = say_span(Math.max(0, now - new Date(one.dataset.since)) / 1000);
  }
}

// --- dialogs -----------------------------------------------------------------------------------------

const dialog = document.getElementById("dialog");

document.addEventListener("click", (event) => {
  const close = event.target.closest("#dialog .close");
  if (close === null) return;
  event.preventDefault();
  dialog.close();
});

dialog.addEventListener("close", () => {
  dialog.replaceChildren();
  chosen.clear();
  show_chosen();
  look_again();
});

// --- htmx --------------------------------------------------------------------------------------------

document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.elt.matches("[data-live]") && changedAt !== "") detail.headers["News-At"] = changedAt;
  if (detail.elt.matches("[data-tidy]")) tidy(detail);
});

function dress(within) {
  show_times(within);
  show_tooltips(within);
  run_clocks();
  show_chosen();
}

// A request that fails says so beside what was clicked, until that is clicked again.
function say_failed(at, text) {
  clear_failed(at);
  const said = document.createElement("p");
  said.className = "fault request-failed";
  said.role = "alert";
  said.textContent = text;
  at.after(said);
}

function clear_failed(at) {
  if (at.nextElementSibling?.matches(".request-failed")) at.nextElementSibling.remove();
}

const is_asked_for = ({ elt, requestConfig }) => requestConfig?.triggeringEvent?.type !== "news" && elt.isConnected;

document.addEventListener("htmx:beforeRequest", ({ detail }) => clear_failed(detail.elt));
document.addEventListener("htmx:sendError", ({ detail }) => {
  if (is_asked_for(detail)) say_failed(detail.elt, "The server cannot be reached. Nothing was changed: try again.");
});
document.addEventListener("htmx:responseError", ({ detail }) => {
  // Of a filter (400), and in a dialog, what is wrong is shown as a part of the page.
  const is_shown = detail.xhr.status === 400 || detail.target === dialog;
  if (!is_asked_for(detail) || (is_shown && detail.xhr.status < 500)) return;
  say_failed(detail.elt, detail.xhr.status < 500 ? find_refusal(detail.xhr) : `The server failed (${detail.xhr.status}). Look whether it was done before you try again.`);
});

// What a page about an error says.
function find_refusal({ responseText, status }) {
  const page = new DOMParser().parseFromString(responseText, "text/html");
  return page.querySelector(".fault")?.textContent ?? `The server refused it (${status}).`;
}

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target === dialog && !dialog.open) dialog.showModal();
});

document.addEventListener("htmx:afterSettle", () => dress(document));

// --- what somebody has unfolded stays so ---------------------------------------------------------------

Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.localName === "details");

// --- news --------------------------------------------------------------------------------------------

const MOST_OFTEN_MS = 100;
// How much of the time may go by with looking again, however slow that is.
const SHARE = 5;
const live = document.getElementById("live");
// How looking again at each part goes, by its id.
const looks = new Map();

function find_live() {
  return [...document.querySelectorAll("[data-live]")];
}

function look_again() {
  for (const one of find_live()) look(one.id);
}

// Looks again at the part of that id: at once, or once it has rested.
function look(id) {
  const part = document.getElementById(id);
  if (part === null || document.hidden || dialog.open || is_typed_in(part)) return;
  const state = looks.get(id) ?? { began: 0, rests: 0, is_due: false, runs: false, again: false };
  looks.set(id, state);
  state.again = state.runs;
  if (state.runs || state.is_due) return;
  state.is_due = true;
  setTimeout(() => {
    // It may have become one that does not change, such as what is wrong with a filter.
    const now = document.getElementById(id);
    state.is_due = false;
    state.runs = now !== null && now.matches("[data-live]");
    state.began = performance.now();
    if (state.runs) htmx.trigger(now, "news");
  }, Math.max(0, state.rests - performance.now()));
}

function rest(id) {
  const state = looks.get(id);
  if (state === undefined || !state.runs) return;
  const now = performance.now();
  state.rests = now + Math.max(MOST_OFTEN_MS, SHARE * (now - state.began));
  state.runs = false;
  if (state.again) {
    state.again = false;
    look(id);
  }
}

document.addEventListener("htmx:afterRequest", ({ detail }) => rest(detail.elt.id));

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  // Somebody may have begun to type, or a dialog been opened, while the answer was on its way.
  if (detail.elt.matches("[data-live]") && (dialog.open || is_typed_in(detail.elt))) detail.shouldSwap = false;
  // Somebody may have asked for something else, such as another filter, since it was looked for.
  const { requestConfig, pathInfo, elt } = detail;
  if (requestConfig.triggeringEvent?.type === "news" && pathInfo.requestPath !== elt.getAttribute("hx-get")) {
    detail.shouldSwap = false;
    look(elt.id);
  }
  // What is shown stays where another look is refused; what is wrong with a filter is a part like any other.
  if (detail.xhr.status > 400 && detail.target !== dialog) detail.shouldSwap = false;
});

function say_live(kind) {
  live.hidden = find_live().length === 0;
  const text = kind === "lost" ? "Reconnecting…" : "Live";
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("lost", kind === "lost");
}

// When what is shown has changed, as the server says it: others who ask for the same share an answer.
let changedAt = "";

function hear({ data }) {
  changedAt = data.at ?? "";
  say_live(data.kind);
  if (data.kind !== "lost") setTimeout(look_again, Math.random() * (data.spread ?? 0));
}

function find_interests() {
  const shown = document.hidden ? [] : find_live().map((one) => one.dataset.live);
  return { all: shown.includes("all"), ids: shown.filter((one) => one !== "all") };
}

// Where there are no shared workers each page has a stream of its own.
function listen_alone() {
  let source = null;
  return (wanted) => {
    if (source !== null) source.close();
    source = null;
    if (!wanted.all && wanted.ids.length === 0) return;
    const asked = new URLSearchParams(wanted.ids.map((id) => ["id", id]));
    if (wanted.all) asked.set("all", "1");
    source = new EventSource("/news?" + asked);
    source.addEventListener("hello", () => hear({ data: { kind: "hello" } }));
    source.addEventListener("changed", (event) => hear({ data: { ...JSON.parse(event.data), kind: "changed" } }));
    source.onerror = () => hear({ data: { kind: "lost" } });
  };
}

function listen() {
  if (typeof SharedWorker === "undefined") return listen_alone();
  const worker = new SharedWorker(document.querySelector("script[data-worker]").dataset.worker);
  worker.port.onmessage = hear;
  worker.port.start();
  return (wanted) => worker.port.postMessage(wanted);
}

let subscribed = "";
const subscribe = listen();

function follow() {
  const wanted = find_interests();
  const text = JSON.stringify(wanted);
  if (text === subscribed) return;
  subscribed = text;
  subscribe(wanted);
}

document.addEventListener("visibilitychange", follow);
document.addEventListener("htmx:afterSettle", follow);
addEventListener("pagehide", () => {
  subscribed = "";
  subscribe({ all: false, ids: [] });
});
addEventListener("pageshow", follow);

// --- what changes without news, such as signs of life --------------------------------------------------

const EVERY_MS = 5000;

setInterval(() => {
  for (const one of document.querySelectorAll("[data-live][data-ages]")) look(one.id);
}, EVERY_MS);

setInterval(run_clocks, 1000);
say_zone(document.getElementById("zone"));
dress(document);
follow();
