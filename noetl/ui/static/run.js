// The page of an execution: a slider that moves its steps and arcs through the log. What they were at
// each version is asked for once; variables and results are asked for when the slider is let go.
"use strict";
{

const PLAY_MS = 10_000;
const FRAME_MS = 40;
const REST_MS = 120;

// What the server says of the execution, once the slider was first touched: {version, at_ms, steps, arcs}.
let known = null;
let asked = null;
let playing = 0;

const find_form = () => document.querySelector("form[data-slider]");
const find_range = () => find_form().elements.at;

async function learn(form) {
  const head = Number(form.dataset.head);
  if (known !== null && known.execution_id === form.dataset.slider && known.version >= head) return known;
  if (asked === null) {
    const answer = fetch(`/api/executions/${form.dataset.slider}/timeline`, { credentials: "same-origin" });
    asked = answer.then((one) => (one.ok ? one.json() : null)).catch(() => null);
    asked.then((one) => { known = one ?? known; asked = null; });
  }
  return asked;
}

// How many of those that are sorted have a number that is not greater.
function count_until(sorted, most, number_of = (one) => one) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (number_of(sorted[middle]) <= most) low = middle + 1; else high = middle;
  }
  return low;
}

function find_status(changes, version) {
  const at = count_until(changes, version, ([since]) => since);
  return at === 0 ? "not_run" : changes[at - 1][1];
}

function find_fate({ taken, missed }, version) {
  if (taken.length > 0 && taken[0] <= version) return "taken";
  return missed.length > 0 && missed[0] <= version ? "missed" : "open";
}

const say_number = (number) => number.toLocaleString("en");

// As `say_count` of the server, but for how fast a loop goes: that is said of now alone.
function say_count({ runs }, version) {
  const begun = runs.filter((run) => run.begin_version <= version);
  if (begun.length === 0) return "";
  const { loop } = begun.at(-1);
  const said = [];
  if (loop !== null) {
    const [done, failed, cancelled] = [loop.done, loop.failed, loop.cancelled].map((one) => count_until(one, version));
    said.push(`${say_number(done + failed + cancelled)} of ${say_number(loop.total)}` + (failed ? `, ${say_number(failed)} failed` : ""));
  }
  if (begun.length > 1) said.push(`${begun.length} runs`);
  return said.join(" · ");
}

// As `find_time` of the server.
function say_time({ runs }, version) {
  const begun = runs.filter((run) => run.begin_version <= version);
  const end_of = (run) => (run.end_version !== null && run.end_version <= version ? run.end_ms : known.at_ms[version - 1]);
  const spent = begun.reduce((sum, run) => sum + Math.max(end_of(run) - run.begin_ms, 0), 0);
  return begun.length === 0 ? "" : say_span(spent / 1000);
}

function change(place, name, value) {
  if (place !== null && place.getAttribute(name) !== value) place.setAttribute(name, value);
}

function say(place, text) {
  if (place !== null && place.textContent !== text) place.textContent = text;
}

function show_steps(flow, version) {
  for (const node of flow.querySelectorAll("[data-step]")) {
    const step = known.steps[node.dataset.step];
    if (step === undefined) continue;
    const status = find_status(step.changes, version);
    change(node, "class", `node ${status}`);
    change(node.querySelector("use"), "href", `#s-${status}`);
  }
  for (const place of flow.querySelectorAll("[data-said]")) {
    say(place, find_status(known.steps[place.dataset.said]?.changes ?? [], version).replace("_", " "));
  }
  for (const place of flow.querySelectorAll("[data-count]")) {
    say(place, say_count(known.steps[place.dataset.count] ?? { runs: [] }, version));
  }
  for (const place of flow.querySelectorAll("[data-time]")) {
    say(place, say_time(known.steps[place.dataset.time] ?? { runs: [] }, version));
  }
}

function show_arcs(flow, version) {
  for (const place of flow.querySelectorAll("[data-arc]")) {
    const arc = known.arcs[place.dataset.arc];
    if (arc === undefined) continue;
    const fate = find_fate(arc, version);
    for (const one of ["taken", "missed", "open"]) place.classList.toggle(one, one === fate);
  }
}

function show_cursor(flow, version) {
  const x = Math.min(100, (100 * (known.at_ms[version - 1] ?? 0)) / Number(flow.dataset.totalMs));
  const line = flow.querySelector(".cursor"), later = flow.querySelector(".later");
  change(line, "x1", `${x}%`);
  change(line, "x2", `${x}%`);
  change(later, "x", `${x}%`);
  change(later, "width", `${100 - x}%`);
}

function show_version(version) {
  const flow = document.querySelector("[data-flow]"), form = find_form();
  if (known === null || flow === null || form === null) return;
  show_steps(flow, version);
  show_arcs(flow, version);
  show_cursor(flow, version);
  const seconds = (known.at_ms[version - 1] ?? 0) / 1000;
  const text = `${say_number(version)} of ${say_number(known.version)} events, after ${say_span(seconds)}`;
  say(form.querySelector("[data-slider-said]"), text);
  change(find_range(), "aria-valuetext", text);
}

// What is true of one version does not change; what is true now does.
function stand_still(form) {
  const part = form.closest("[data-live]");
  if (part === null) return;
  part.removeAttribute("data-live");
  say_live();
  follow();
}

function find_address(version, head) {
  const url = new URL(location.href);
  if (version >= head) url.searchParams.delete("at"); else url.searchParams.set("at", version);
  return url;
}

// The slider was let go: the address says where, and what was true then is asked for.
function release(version) {
  const form = find_form();
  const url = find_address(version, Number(form.dataset.head));
  history.replaceState(history.state, "", url);
  // What a step has come to is told in its drawer, and what is true now goes on.
  const all = document.querySelector(".drawer") !== null || (form.dataset.goesOn === "yes" && !url.searchParams.has("at"));
  if (!all) url.searchParams.set("part", "moment");
  const target = all ? "#execution" : "#moment";
  htmx.ajax("GET", url.pathname + url.search, { target, swap: "morph:outerHTML", source: target });
}

async function move(version, ends) {
  const form = find_form(), range = find_range();
  stand_still(form);
  await learn(form);
  range.value = version;
  show_version(Number(range.value));
  if (ends) release_soon(Number(range.value));
}

// Keys are let go after each press: what was true then is asked for once nobody presses any more.
let resting = 0;

function release_soon(version) {
  clearTimeout(resting);
  resting = setTimeout(() => release(version), REST_MS);
}

function stop() {
  clearInterval(playing);
  playing = 0;
  const button = find_form()?.querySelector("[data-play]");
  if (button) {
    button.textContent = "Play";
    button.setAttribute("aria-pressed", "false");
  }
}

// From where it stands, or from the beginning, to the end: the time between events as it was, ten
// seconds long altogether.
async function play() {
  const form = find_form();
  stand_still(form);
  if ((await learn(form)) === null) return;
  const button = form.querySelector("[data-play]"), head = known.version, end = known.at_ms[head - 1];
  button.textContent = "Stop";
  button.setAttribute("aria-pressed", "true");
  const from = Number(find_range().value) >= head ? 1 : Number(find_range().value);
  const began = performance.now(), begin = known.at_ms[from - 1];
  playing = setInterval(() => {
    const now = begin + ((performance.now() - began) / PLAY_MS) * Math.max(end, 1);
    const version = Math.max(from, count_until(known.at_ms, now));
    const range = find_range();
    range.value = version;
    show_version(version);
    if (version >= head) {
      stop();
      release(head);
    }
  }, FRAME_MS);
}

document.addEventListener("input", ({ target }) => {
  if (!target.matches("form[data-slider] input[name=at]")) return;
  stop();
  move(Number(target.value), false);
});

document.addEventListener("change", ({ target }) => {
  if (target.matches("form[data-slider] input[name=at]")) move(Number(target.value), true);
});

document.addEventListener("submit", (event) => {
  if (event.target.matches("form[data-slider]")) event.preventDefault();
});

document.addEventListener("click", (event) => {
  const way = event.target.closest("form[data-slider] [data-move]");
  if (way !== null && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
    event.preventDefault();
    stop();
    const range = find_range(), by = way.dataset.move;
    const to = by === "first" ? 1 : by === "last" ? Number(range.max) : Number(range.value) + Number(by);
    move(to, true);
  }
  if (event.target.closest("[data-play]") !== null) {
    if (playing) {
      stop();
      release(Number(find_range().value));
    } else play();
  }
});

// A click on the time of the steps goes to what was true then.
document.addEventListener("click", async (event) => {
  const line = event.target.closest(".step-row svg.track");
  if (line === null) return;
  const box = line.getBoundingClientRect(), form = find_form();
  if ((await learn(form)) === null) return;
  const at = ((event.clientX - box.left) / box.width) * Number(line.closest("[data-flow]").dataset.totalMs);
  stop();
  move(Math.max(1, count_until(known.at_ms, at)), true);
});

// What only scripts can do is shown where there are some.
function dress_slider() {
  const form = find_form();
  if (form === null) return;
  form.querySelector("[data-play]").hidden = Number(form.dataset.head) < 2;
  form.querySelector("[data-go]").hidden = true;
}

document.addEventListener("htmx:afterSettle", dress_slider);
dress_slider();

}
